package command

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/runner"
)

func parsePositive(text string) (time.Duration, error)    { return duration.Positive(text) }
func parseNotNegative(text string) (time.Duration, error) { return duration.NotNegative(text) }
func parseBound(text string) (time.Duration, error)       { return duration.Bound(text) }

// parseWait reads a duration or "forever".
func parseWait(text string) (time.Duration, error) {
	if text == "forever" {
		return runner.Forever, nil
	}
	return parseNotNegative(text)
}
