package importer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/jobfile"
	"github.com/leaderrun/leaderrun/internal/ownership"
	"github.com/leaderrun/leaderrun/test/servers"
)

// written makes a crontab in a folder of its own and imports it.
func written(t *testing.T, text string) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crontab")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil { //nolint:gosec // cron's own have this mode
		t.Fatal(err)
	}
	sources, _, err := Read([]string{path}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := Import(sources, Options{})
	return files[0]
}

func TestWriteKeepsOwnerAndMode(t *testing.T) {
	f := written(t, "0 2 * * * a\n")
	const nobody = 65534
	owned := os.Geteuid() == 0
	if owned {
		if err := os.Chown(f.Path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	backup, err := f.Write()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{f.Path, backup} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm() != 0o640 || owned && (st.Uid != nobody || st.Gid != nobody) {
			t.Errorf("%s: mode %v, owner %d:%d", path, info.Mode(), st.Uid, st.Gid)
		}
	}
}

// The hazard: an editor saves the crontab while the new one is on its way to a slow disk, and nobody ever sees that edit again.
func TestWriteKeepsAnEditThatCameMeanwhile(t *testing.T) {
	const edited = "0 3 * * * b\n"
	f := written(t, "0 2 * * * a\n")
	createFile = func(path string, text []byte, like *os.File) error {
		return errors.Join(ownership.Create(path, text, like), os.WriteFile(f.Path, []byte(edited), 0o600))
	}
	defer func() { createFile = ownership.Create }()
	_, err := f.Write()
	if refusal, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(refusal.Why, "somebody has changed it") {
		t.Errorf("%v, want a refusal", err)
	}
	if text, err := os.ReadFile(f.Path); err != nil || string(text) != edited {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Dir(f.Path)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	for why, change := range map[string]func(*testing.T, *File){
		"somebody has changed it": func(t *testing.T, f *File) {
			t.Helper()
			if err := os.WriteFile(f.Path, []byte("0 3 * * * b\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"it is a symbolic link": func(t *testing.T, f *File) {
			t.Helper()
			if err := errors.Join(os.Rename(f.Path, f.Path+".x"), os.Symlink(f.Path+".x", f.Path)); err != nil {
				t.Fatal(err)
			}
		},
		"it has another name": func(t *testing.T, f *File) {
			t.Helper()
			if err := os.Link(f.Path, f.Path+".x"); err != nil {
				t.Fatal(err)
			}
		},
		"not a regular file": func(t *testing.T, f *File) {
			t.Helper()
			if err := errors.Join(os.Remove(f.Path), syscall.Mkfifo(f.Path, 0o600)); err != nil {
				t.Fatal(err)
			}
		},
		"others can write it (mode 0666)": func(t *testing.T, f *File) {
			t.Helper()
			if err := os.Chmod(f.Path, 0o666); err != nil { //nolint:gosec // the hazard
				t.Fatal(err)
			}
		},
		"cron would ignore the whole file: line 2": func(_ *testing.T, f *File) { f.After = append(f.After, "x\n"...) },
	} {
		f := written(t, "0 2 * * * a\n")
		change(t, f)
		_, err := f.Write()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(f.Path), ".*")); len(left) > 0 {
			t.Errorf("%s: it left %q", why, left)
		}
	}
}

// The hazard: each attempt on a full disk leaves one more file.
func TestWriteOnAFullDiskLeavesNothing(t *testing.T) {
	f := written(t, "0 2 * * * a\n")
	full := errors.New("no space left on device")
	createFile = func(path string, text []byte, like *os.File) error {
		if strings.HasSuffix(path, ".import") {
			return full
		}
		return ownership.Create(path, text, like)
	}
	defer func() { createFile = ownership.Create }()
	if _, err := f.Write(); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(f.Path)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// The hazard: a user who was let in by an access control list is shut out, and a group that was not gets the rights of the mask.
func TestWriteKeepsTheACL(t *testing.T) {
	f := written(t, "0 2 * * * a\n")
	const list = "system.posix_acl_access"
	// version 2; user::rw-, user:65534:r--, group::---, mask::r--, other::---
	acl := []byte("\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\xfe\xff\x00\x00" +
		"\x04\x00\x00\x00\xff\xff\xff\xff" + "\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff")
	if err := unix.Setxattr(f.Path, list, acl, 0); err != nil {
		servers.Lack(t, "acl", "no access control lists here: "+err.Error())
	}
	backup, err := f.Write()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{f.Path, backup} {
		got := make([]byte, 1024)
		n, err := unix.Getxattr(path, list, got)
		if err != nil || string(got[:n]) != string(acl) {
			t.Errorf("%s: %q, %v", path, got[:max(n, 0)], err)
		}
	}
}

// What a run that was killed left behind is in nobody's way.
func TestWriteAfterAKill(t *testing.T) {
	f := written(t, "0 2 * * * a\n")
	next := filepath.Join(filepath.Dir(f.Path), ".crontab.import")
	if err := os.WriteFile(next, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.Path)
	if err != nil || string(text) != string(f.After) {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := os.Stat(next); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it is still there")
	}
}

// The daemon takes what is written for it, and runs the same.
func TestJobFilesOfRealCrontabs(t *testing.T) {
	for _, s := range shipped(t) {
		files, _ := Import([]Source{s}, Options{Timezone: "UTC"})
		text, _ := JobFile(files[0].Jobs, "")
		if text == "" && files[0].Wrapped() == 0 {
			continue
		}
		file, err := jobfile.Parse("jobs.yaml", []byte(text), jobfile.NewDefaults())
		if err != nil {
			t.Errorf("%s: %v\n%s", s.Path, err, text)
			continue
		}
		if len(file.Jobs) != files[0].Wrapped() {
			t.Errorf("%s: %d jobs of %d", s.Path, len(file.Jobs), files[0].Wrapped())
		}
		for _, j := range file.Jobs {
			for _, was := range files[0].Jobs {
				script, _ := crontab.SplitPercent(was.raw)
				if s.Format == crontab.Supercronic {
					script = was.raw
				}
				if was.Word != Left && was.Name == j.Name && j.Argv[len(j.Argv)-1] != script && was.plain == nil {
					t.Errorf("%s: %s runs %q, and ran %q", s.Path, j.Name, j.Argv, script)
				}
			}
		}
	}
}

func TestCalendars(t *testing.T) {
	for calendar, want := range map[string]string{
		"daily":                       "0 0 * * *",
		"Weekly":                      "0 0 * * 1",
		"*-*-* 4:30":                  "30 4 * * *",
		"04:30:00":                    "30 4 * * *",
		"Mon..Fri 08..18:0/15":        "*/15 8-18 * * 1-5",
		"Sat,Sun *-*-* 1:5":           "5 1 * * 6,7",
		"fri..sun":                    "0 0 * * 5-7",
		"*-1,7-1 00:00":               "0 0 1 1,7 *",
		"*-*-1..7 *:0/20 UTC":         "*/20 * 1-7 * * UTC",
		"*-*-* 2/6:00 Europe/Berlin":  "0 2-23/6 * * * Europe/Berlin",
		"*:*":                         "* * * * *",
		"*:*:0/10":                    "!",
		"2027-01-01 00:00":            "!",
		"Mon *-*-1..7 00:00":          "!",
		"*-*~01":                      "!",
		"*-02-30 00:00":               "!",
		"Sun..Mon 00:00":              "!",
		"25:00":                       "!",
		"Mon-Fri 09:00":               "0 9 * * 1-5",
		"mon-wed,Sat *-*-* 09:00 CET": "0 9 * * 1-3,6 CET",
		"*-*-* 06:00 GMT":             "0 6 * * * GMT",
		"daily UTC":                   "0 0 * * * UTC",
		"biannually":                  "0 0 1 1,7 *",
		"Bi-Annually":                 "0 0 1 1,7 *",
		"semi-annually":               "0 0 1 1,7 *",
		"anually":                     "0 0 1 1 *",
		"daily Nowhere/X":             "!",
		"nonsense":                    "!",
		"*-*-* 1:00:00.5":             "!",
		"Monday..Wed,sat *-*-* 01:02": "2 1 * * 1-3,6",
		"*-*-* 00/2:00,30":            "0,30 */2 * * *",
	} {
		expr, zone, why := fields(calendar)
		got := strings.TrimSpace(expr + " " + zone)
		if why != "" {
			got = "!"
		}
		if got != want {
			t.Errorf("%s: %q (%s), want %q", calendar, got, why, want)
		}
	}
}

// Hazard: YAML is UTF-8, and what is not becomes another command: the byte \xe9 of a name in Latin-1 became the two of an é.
func TestJobFilesHaveTheBytesOfTheLine(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"echo é | cat", "echo \u0085\u2028\ufeff | cat", "echo \x01\x7f\t | cat", "ls /srv/caf\xe9 | cat", "echo a; \x80"} {
		for _, before := range []string{"", "A='\xe9'\n", "HOME=/\xe9\n"} {
			files, _ := Import([]Source{{Path: "crontab", Text: []byte(before + "0 2 * * * " + script + "\n")}}, Options{ToJobs: true})
			text, _ := JobFile(files[0].Jobs, "")
			if valid := utf8.ValidString(before + script); valid != (text != "") || valid != (files[0].Jobs[0].Word != Left) {
				t.Errorf("%q: %q\n%+v", before+script, text, files[0].Jobs[0])
			}
			if text == "" {
				continue
			}
			file, err := jobfile.Parse("jobs.yaml", []byte(text), jobfile.NewDefaults())
			if err != nil {
				t.Fatalf("%q: %v", script, err)
			}
			if got := file.Jobs[0].Argv; got[len(got)-1] != script {
				t.Errorf("%q runs %q", script, got)
			}
		}
	}
}
