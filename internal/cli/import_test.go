package cli

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
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

// Whoever may not read or write a file learns who may.
func TestImportFaultHasARemedy(t *testing.T) {
	fault, ok := errors.AsType[*fault](importFault(&fs.PathError{Op: "open", Path: "/etc/cron.d/x", Err: syscall.EACCES}))
	if !ok || fault.what != "/etc/cron.d/x" || fault.hint != "run it as root, or as the owner of the file" {
		t.Errorf("%+v", fault)
	}
}
