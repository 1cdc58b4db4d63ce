package tree

import (
	"os"
	"path/filepath"
	"testing"
)

// A process that the cgroup lists and proc does not show is no proof that all have ended.
func TestWhatIsHiddenIsNotTracedOnly(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"cgroup.events": "populated 1\n", "cgroup.procs": "4194303\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if OthersCgroup(dir).tracedOnly() {
		t.Error("it is said to be traced, and nobody has seen it")
	}
}
