package cli

import (
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

// Package crontab reads calls of run without this package's parser: it must know which options have a value.
func TestCrontabKnowsTheOptionsOfRun(t *testing.T) {
	for _, o := range runCommand().options {
		if isSwitch := slices.Contains(crontab.Switches, o.name); isSwitch != (o.value == "") {
			t.Errorf("--%s: a switch: %t", o.name, isSwitch)
		}
		if o.short != "" && crontab.ShortOptions[o.short] != o.name {
			t.Errorf("-%s is --%s", o.short, o.name)
		}
	}
}
