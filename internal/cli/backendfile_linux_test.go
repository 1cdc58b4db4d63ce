package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that this user may not read is named, and so is the remedy. The test reads it as a user who may not, also where root runs the tests: setfsuid(2) is of one thread,
// which ends with this goroutine.
func TestBackendFileThatIsNotReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("file:"), 0); err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			_, _ = unix.SetfsuidRetUid(65534)
		}
		_, err := heldURL(path)
		read <- err
	}()
	if err := <-read; err == nil || !strings.Contains(err.Error(), path+": permission denied") || !strings.Contains(HintOf(err), "readable for this user") {
		t.Errorf("%v, hint %q", err, HintOf(err))
	}
}
