package crontabs

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/cli"
)

// Whoever may not read or write a file learns who may.
func TestImportFaultHasARemedy(t *testing.T) {
	fault, ok := errors.AsType[*cli.Fault](importFault(&fs.PathError{Op: "open", Path: "/etc/cron.d/x", Err: syscall.EACCES}))
	if !ok || fault.What != "/etc/cron.d/x" || fault.Hint != "run it as root, or as the owner of the file" {
		t.Errorf("%+v", fault)
	}
}
