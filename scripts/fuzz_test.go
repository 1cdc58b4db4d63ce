package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// fuzz.sh takes one failure for none, and no other.
func TestFuzzKnowsTheEndOfTheTime(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	const (
		progress = "fuzz: elapsed: 0s, gathering baseline coverage: 0/19 completed\nfuzz: elapsed: 10s, execs: 123 (12/sec), new interesting: 0 (total: 19)\n"
		failed   = "--- FAIL: FuzzX (10.02s)\n"
		deadline = "    context deadline exceeded\n"
		end      = "FAIL\n"
		waiting  = "waiting for fuzzing process to terminate...\n"
	)
	for name, c := range map[string]struct {
		log  string
		over bool
	}{
		"the end of the time":      {progress + failed + deadline + end, true},
		"a worker that dies late":  {progress + waiting + progress + failed + deadline + end, true},
		"a finding with that text": {progress + failed + "    --- FAIL: FuzzX (0.00s)\n        x_test.go:7: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzX/1\n" + end, false},
		"more than that":           {progress + failed + deadline + "    something else\n" + end, false},
		"a worker that hangs":      {progress + failed + "    fuzzing process hung or terminated unexpectedly: exit status 2\n" + end, false},
		"another target":           {progress + "--- FAIL: FuzzY (10.02s)\n" + deadline + end, false},
		"no failure":               {progress + "PASS\n", false},
		"nothing":                  {"", false},
	} {
		log := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(log, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "bash", "fuzz.sh", "-over", "FuzzX", log).CombinedOutput()
		if over := err == nil; over != c.over || len(out) > 0 {
			t.Errorf("%s: %v, want %v: %s", name, over, c.over, out)
		}
	}
}

// A target whose time was over before it had made an input of its own tells nothing, and its log has no number then.
func TestFuzzCountsNewInputs(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	const (
		begun = "fuzz: elapsed: 0s, gathering baseline coverage: 0/19 completed\n"
		busy  = "fuzz: elapsed: 10s, gathering baseline coverage: 7/19 completed\n"
		known = "fuzz: elapsed: 1s, gathering baseline coverage: 19/19 completed, now fuzzing with 1 workers\n"
		few   = "fuzz: elapsed: 3s, execs: 21 (7/sec), new interesting: 0 (total: 19)\n"
		many  = "fuzz: elapsed: 10s, execs: 1234 (123/sec), new interesting: 2 (total: 21)\n"
	)
	for log, want := range map[string]string{"": "0\n", begun + busy: "0\n", begun + known: "0\n", begun + known + few: "2\n", begun + known + few + many + "PASS\n": "1215\n"} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "bash", "fuzz.sh", "-tried", path).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%q and %v, want %q, of\n%s", out, err, want, log)
		}
	}
}
