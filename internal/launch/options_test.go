package launch

import (
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/crontab"
)

// Package crontab reads calls of run without this package's parser: it must know which options have a value.
func TestCrontabKnowsTheOptionsOfRun(t *testing.T) {
	for _, o := range slices.Concat(RunOptions(), cli.CommonOptions()) {
		if isSwitch := slices.Contains(crontab.Switches, o.Name); isSwitch != (o.Value == "") {
			t.Errorf("--%s: a switch: %t", o.Name, isSwitch)
		}
		if o.Short != "" && crontab.ShortOptions[o.Short] != o.Name {
			t.Errorf("-%s is --%s", o.Short, o.Name)
		}
	}
}
