package fence

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// Hazard: a signal comes when the file has been replaced already. The program ends by it, and says nothing: everybody takes the
// file for the old one.
func TestFenceFileSignaledTooLate(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	path := filepath.Join(t.TempDir(), "report")
	const rounds, enough = 400, 5
	late := 0
	for token := int64(1); token <= rounds && late < enough && !t.Failed(); token++ {
		var said bytes.Buffer
		r := exec.CommandContext(t.Context(), "leaderrun", "fence", "file", "--lock-wait", "1m", path)
		r.Env = append(os.Environ(), "HOME="+filepath.Dir(path), "GORACE=atexit_sleep_ms=0", fmt.Sprintf("LEADERRUN_TOKEN=%d", token))
		r.Stdin, r.Stderr = strings.NewReader("the content of this run"), &said
		before, _ := os.Stat(path)
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(waits.Patience); ; {
			now, err := os.Stat(path)
			if err == nil && (before == nil || !os.SameFile(before, now)) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("it replaces nothing: %q", &said)
			}
			time.Sleep(50 * time.Microsecond)
		}
		_ = r.Process.Signal(syscall.SIGTERM)
		_ = r.Wait()
		want := "" // it came when all was over
		if status, _ := r.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			late++
			want = "leaderrun: " + path + " was replaced before the signal\n"
		}
		if said.String() != want {
			t.Errorf("%v: it says %q, want %q", r.ProcessState, &said, want)
		}
	}
	t.Logf("%d signals came after the rename", late)
}
