package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A server that left a process behind would take its memory and its port from all that is measured after it.
func TestAllProcessesOfAServerEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	several := store{name: "several", needs: []string{"sleep"}, start: func(s *server) error {
		for range 3 {
			if err := s.launch("sleep", "1000"); err != nil {
				return err
			}
		}
		return nil
	}}
	s, err := several.serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if len(s.processes) != 3 {
		t.Errorf("%d processes", len(s.processes))
	}
	for _, p := range s.processes {
		if name := nameOf(p.Process.Pid); name != "" {
			t.Errorf("%s is left", name)
		}
	}
}

func TestWhatIsNotInstalledIsNamed(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there.jar")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		needs []string
		ok    bool
	}{
		{nil, true},
		{[]string{"sh", there}, true},
		{[]string{"sh", there + ".not"}, false},
		{[]string{"sh", "no-such-server"}, false},
	} {
		if err := (store{needs: test.needs}).installed(); (err == nil) != test.ok {
			t.Errorf("%q: %v", test.needs, err)
		}
	}
}

func TestNewest(t *testing.T) {
	if got, want := newest([]string{"/usr/lib/postgresql/9.6/bin/postgres", "/usr/lib/postgresql/15/bin/postgres"}), "/usr/lib/postgresql/15/bin/postgres"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
