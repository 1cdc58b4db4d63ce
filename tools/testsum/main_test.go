package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// module writes a small module, one package a file, and goes there.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	files["go.mod"] = "module example\n\ngo 1.26\n"
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	passing = "package a\nimport \"testing\"\nfunc TestFine(t *testing.T) { t.Log(\"quiet\") }\n"
	skips   = `package b
import "testing"
func TestServer(t *testing.T) {
	t.Run("one", func(t *testing.T) { t.Log("first"); t.Skip("redis: not installed") })
	t.Run("two", func(t *testing.T) { t.Skip("redis: not installed") })
	t.Run("three", func(t *testing.T) { t.SkipNow() })
}
`
	failing = `package c
import "testing"
func TestGood(t *testing.T) { t.Log("quiet") }
func TestBad(t *testing.T) {
	t.Run("part", func(t *testing.T) { t.Error("what went wrong") })
	t.Run("other", func(t *testing.T) { t.Log("quiet") })
}
`
	panics = "package d\nimport \"testing\"\nfunc TestPanic(t *testing.T) { panic(\"loud\") }\n"
	exits  = "package e\nimport (\"os\"; \"testing\")\nfunc TestExit(t *testing.T) { os.Exit(7) }\n"
	broken = "package f\nimport \"testing\"\nfunc TestX(t *testing.T) { undefined() }\n"
	bare   = "package g\n"
	longer = "package i\nimport \"testing\"\n" +
		"func TestLong(t *testing.T) { t.Skip(\"left to make test-all\") }\nfunc TestServer(t *testing.T) { t.Skip(\"left to make test-all: etcd\") }\n"
	lacks = `package h
import "testing"
func TestSuite(t *testing.T) {
	t.Log("not for this store: an emptied store waits: nothing tells: of a run")
	t.Log("not for this store: a restart keeps its promises: TestOther has it")
	t.Log("not for this store: an empty restart waits: nothing tells: of a run")
	t.Run("a tick is granted once", func(t *testing.T) {})
}
func TestOther(t *testing.T) { t.Run("a restart keeps its promises", func(t *testing.T) {}) }
`
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		code  int
		want  []string
		last  string
	}{
		{
			"passed",
			map[string]string{"a/a_test.go": passing, "g/g.go": bare},
			0,
			[]string{"ok  \texample/a\t", "?   \texample/g\t[no test files]"},
			"1 tests passed, none skipped",
		},
		{
			"skipped",
			map[string]string{"b/b_test.go": skips},
			0,
			[]string{"ok  \texample/b\t"},
			"1 tests passed, 3 skipped: no reason given (b.TestServer/three); redis: not installed (b.TestServer/one, b.TestServer/two)",
		},
		{
			"left out",
			map[string]string{"h/h_test.go": lacks},
			0,
			[]string{"ok  \texample/h\t", "\nleft out: h: an emptied store waits, an empty restart waits (nothing tells: of a run)\n4 tests passed"},
			"4 tests passed, none skipped",
		},
		{
			"left to the longer run",
			map[string]string{"b/b_test.go": skips, "i/i_test.go": longer},
			0,
			[]string{"\nleft to make test-all: tests of i 2\n1 tests passed"},
			"1 tests passed, 3 skipped: no reason given (b.TestServer/three); redis: not installed (b.TestServer/one, b.TestServer/two)",
		},
		{
			"failed",
			map[string]string{"a/a_test.go": passing, "c/c_test.go": failing},
			1,
			[]string{"--- FAIL: TestBad", "what went wrong", "FAIL\texample/c\t", "ok  \texample/a\t", "failed: c.TestBad/part, c.TestBad\n"},
			"3 tests passed, none skipped",
		},
		{
			"panicked",
			map[string]string{"d/d_test.go": panics},
			1,
			[]string{"panic: loud", "FAIL\texample/d\t", "failed: d.TestPanic\n"},
			"0 tests passed, none skipped",
		},
		{
			"exited",
			map[string]string{"e/e_test.go": exits},
			1,
			[]string{"FAIL\texample/e\t", "failed: example/e\n"},
			"0 tests passed, none skipped",
		},
		{
			"not built",
			map[string]string{"f/f_test.go": broken},
			1,
			[]string{"undefined: undefined", "FAIL\texample/f [build failed]", "failed: example/f\n"},
			"0 tests passed, none skipped",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			module(t, c.files)
			var out, errOut bytes.Buffer
			if code := run([]string{"./..."}, &out, &errOut); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q", want)
				}
			}
			if !strings.HasSuffix(out.String(), "\n"+c.last+"\n") && out.String() != c.last+"\n" {
				t.Errorf("the last line is not %q", c.last)
			}
			if regexp.MustCompile(`quiet|TestOther has it|(?m:^=== )`).MatchString(out.String()) {
				t.Error("the output tells of tests that passed")
			}
			if t.Failed() {
				t.Logf("output:\n%s%s", out.String(), errOut.String())
			}
		})
	}
}

// One list of packages is tested after the other: the second one begins when the first is over.
func TestOneAfterAnother(t *testing.T) {
	module(t, map[string]string{
		"a/a_test.go": "package a\nimport (\"os\"; \"testing\"; \"time\")\nfunc TestA(t *testing.T) { time.Sleep(time.Second); if err := os.WriteFile(\"../over\", nil, 0o600); err != nil { t.Fatal(err) } }\n",
		"b/b_test.go": "package b\nimport (\"os\"; \"testing\")\nfunc TestB(t *testing.T) { if _, err := os.Stat(\"../over\"); err != nil { t.Fatal(err) } }\n",
		"c/c_test.go": failing,
	})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-count", "1", "--", "./a", "--", "./b"}, 0, "2 tests passed, none skipped\n"},
		{[]string{"-count", "1", "--", "./c", "--", "./a"}, 1, "3 tests passed, none skipped\n"},
		{[]string{"-count", "1", "--", "./a", "--", "./nowhere", "--", "./b"}, 1, "2 tests passed, none skipped\n"},
		{[]string{"-count", "1", "--", "./b"}, 1, "0 tests passed, none skipped\n"},
	} {
		var out, errOut bytes.Buffer
		if code := run(c.args, &out, &errOut); code != c.code || !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, out.String(), errOut.String())
		}
		_ = os.Remove("over")
	}
}

// A lane begins while the one before it is still at work: each of these tests waits for the other.
func TestLanesSideBySide(t *testing.T) {
	wait := func(pkg, mine, other string) string {
		return "package " + pkg + "\nimport (\"os\"; \"testing\"; \"time\")\nfunc TestX(t *testing.T) {\n" +
			"if err := os.WriteFile(\"../" + mine + "\", nil, 0o600); err != nil { t.Fatal(err) }\n" +
			"for { if _, err := os.Stat(\"../" + other + "\"); err == nil { return }; time.Sleep(10*time.Millisecond) } }\n"
	}
	module(t, map[string]string{
		"a/a_test.go": wait("a", "here", "there"),
		"b/b_test.go": wait("b", "there", "here"),
		"c/c_test.go": failing,
	})
	var out, errOut bytes.Buffer
	code := run([]string{"-count", "1", "-timeout", "2m", "--", "./a", "^", "./b", "--", "./c"}, &out, &errOut)
	if code != 1 || !strings.Contains(out.String(), "failed: c.TestBad/part") || !strings.HasSuffix(out.String(), "4 tests passed, none skipped\n") {
		t.Errorf("exit code %d, want 1 and the tests of both lanes:\n%s%s", code, out.String(), errOut.String())
	}
}

// A variable is set for its group alone.
func TestVariablesOfAGroup(t *testing.T) {
	t.Setenv("TESTSUM", "outside")
	want := func(pkg, value string) string {
		return "package " + pkg + "\nimport (\"os\"; \"testing\")\n" +
			"func TestX(t *testing.T) { if got := os.Getenv(\"TESTSUM\"); got != \"" + value + "\" { t.Fatal(got) } }\n"
	}
	module(t, map[string]string{"a/a_test.go": want("a", "a=b"), "b/b_test.go": want("b", "outside"), "c/c_test.go": want("c", "c")})
	var out, errOut bytes.Buffer
	code := run([]string{"-count", "1", "--", "TESTSUM=a=b", "./a", "--", "./b", "^", "TESTSUM=c", "-short", "./c"}, &out, &errOut)
	if code != 0 || !strings.HasSuffix(out.String(), "3 tests passed, none skipped\n") {
		t.Errorf("exit code %d:\n%s%s", code, out.String(), errOut.String())
	}
}

func TestSlowest(t *testing.T) {
	module(t, map[string]string{"a/a_test.go": "package a\nimport (\"testing\"; \"time\")\n" +
		"func TestSlow(t *testing.T) { time.Sleep(50*time.Millisecond) }\nfunc TestQuick(t *testing.T) {}\n"})
	var out, errOut bytes.Buffer
	if code := run([]string{"-slowest=1", "--", "./a"}, &out, &errOut); code != 0 {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
	if !regexp.MustCompile(`(?m)^slowest tests:\n +\d+\.\d s  a\.TestSlow\n2 tests passed`).MatchString(out.String()) {
		t.Errorf("no table of one test:\n%s", out.String())
	}
	if code := run([]string{"-slowest=some", "./a"}, &out, &errOut); code != 2 {
		t.Errorf("exit code %d for a number that is none, want 2", code)
	}
}

// Ctrl-C ends it all, and not the first list alone. The test of that list sends it to us, as a terminal would.
func TestInterruptEndsAll(t *testing.T) {
	module(t, map[string]string{
		"a/a_test.go": "package a\nimport (\"os\"; \"strconv\"; \"syscall\"; \"testing\")\n" +
			"func TestA(t *testing.T) { pid, _ := strconv.Atoi(os.Getenv(\"TESTSUM\")); if err := syscall.Kill(pid, syscall.SIGINT); err != nil { t.Fatal(err) } }\n",
		"b/b_test.go": passing,
	})
	t.Setenv("TESTSUM", strconv.Itoa(os.Getpid()))
	var out, errOut bytes.Buffer
	if code := run([]string{"-count", "1", "--", "./a", "--", "./b"}, &out, &errOut); code != 1 || strings.Contains(out.String(), "example/b") {
		t.Errorf("exit code %d, want 1 and no second list:\n%s%s", code, out.String(), errOut.String())
	}
}
