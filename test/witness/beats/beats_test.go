package beats

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := Span{Job: "j", Host: "a", Token: 7, Tick: 8, Attempt: 2, Run: "r", Role: RoleOrphan, PID: 9, Wrapper: 10, Began: 11, First: 12}
	f, err := os.Create(filepath.Join(dir, Name(want)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for i := range int64(3) {
		want.Beats, want.Last, want.Pause, want.Over = i+1, 100, time.Duration(i), i == 2
		if err := Write(f, want); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "new-1"), []byte("begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Read(dir)
	if err != nil || len(all) != 1 || all[0] != want {
		t.Fatalf("read %+v, %v; want %+v", all, err, want)
	}
	if err := os.Truncate(f.Name(), counters-1); err != nil {
		t.Fatal(err)
	}
	if all, err := Read(dir); err == nil {
		t.Errorf("a file that is cut off was read: %+v", all)
	}
}
