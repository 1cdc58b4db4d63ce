// Package all lists the commands of leaderrun.
package all

import (
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/cli/cron"
	"github.com/leaderrun/leaderrun/internal/cli/crontabs"
	"github.com/leaderrun/leaderrun/internal/cli/doctor"
	"github.com/leaderrun/leaderrun/internal/cli/fence"
	"github.com/leaderrun/leaderrun/internal/cli/operate"
	"github.com/leaderrun/leaderrun/internal/cli/run"
)

// Commands makes them, in the order of the help.
func Commands() []func() *cli.Command {
	return []func() *cli.Command{
		run.Command, operate.Status, operate.History, run.Check, operate.Break, operate.Forget,
		operate.Next, cron.Command, crontabs.Import, crontabs.Lint, fence.Command, doctor.Command,
	}
}
