package jobfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/internal/ownership"
)

// folder makes files: what is in them by their names.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// reported is what a load says, without the folder.
func reported(dir string, file *File, err error) (jobs, says []string) {
	if file != nil {
		for _, j := range file.Jobs {
			jobs = append(jobs, j.Name)
		}
		for _, w := range file.Warnings {
			says = append(says, w.String())
		}
	}
	if err != nil {
		says = append(says, problems(err)...)
	}
	for i := range says {
		says[i] = strings.ReplaceAll(says[i], dir+"/", "")
	}
	return jobs, says
}

func TestDirectory(t *testing.T) {
	dir := folder(t, map[string]string{
		"backup":         "# job: backup\n0 2 * * * backup\n",
		"certs.crontab":  "0 3 * * * certbot renew\n",
		"feed.yaml":      "jobs: {feed: {every: 1m, command: [feed]}}\n",
		"only-variables": "PATH=/bin\n",
		".placeholder":   "nothing", "old~": "nothing", "backup.dpkg-old": "nothing",
		"README.txt": "nothing",
	})
	if err := os.Mkdir(filepath.Join(dir, "disabled"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := Load([]string{dir}, testDefaults(), How{})
	jobs, says := reported(dir, file, err)
	if want := []string{"backup", "certbot-renew", "feed"}; !slices.Equal(jobs, want) {
		t.Errorf("jobs %q, want %q", jobs, want)
	}
	want := []string{"README.txt: it is not read: its name has other characters than letters, digits, - and _: the name of a crontab may end in .crontab, that of a job file ends in .yaml"}
	if diff := cmp.Diff(want, says); diff != "" {
		t.Error(diff)
	}
}

// One name for the jobs of two files would be one lease, and one of them would not run.
func TestNamesOfSeveralFiles(t *testing.T) {
	dir := folder(t, map[string]string{"a": "0 2 * * * backup\n", "b": "\n0 3 * * * backup\n"})
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	file, err := Load(paths, testDefaults(), How{})
	jobs, says := reported(dir, file, err)
	if want := []string{"b:2: backup: two jobs of this name; the first is in a:1: rename one of them"}; jobs != nil || !slices.Equal(says, want) {
		t.Errorf("%q, %q", jobs, says)
	}
	if file, err = Load(paths, testDefaults(), How{SkipBad: true}); err != nil || len(file.Jobs) != 1 || file.Jobs[0].Place != paths[0]+":1" {
		t.Errorf("%+v, %v", file, err)
	}
}

func TestSkipBadLines(t *testing.T) {
	dir := folder(t, map[string]string{
		"crontab": `0 25 * * * too-late
0 2 * * * fine
@reboot at-boot
SHELL=bash
0 3 * * * perhaps-of-that-shell
`,
		"jobs.yaml": "jobs: {good: {every: 1m, command: [x]}, bad: {evry: 1m, command: [x]}}\n",
		"a-windows": "0 5 * * * of-one-that-cron-would-call-otherwise\r\n0 6 * * * nor-this\n",
		"z":         "0 4 * * * last\n",
	})
	file, err := Load([]string{dir}, testDefaults(), How{SkipBad: true})
	jobs, says := reported(dir, file, err)
	if want := []string{"fine", "last"}; !slices.Equal(jobs, want) {
		t.Errorf("jobs %q, want %q", jobs, want)
	}
	for i, begins := range []string{"a-windows:1: the file", "crontab:1: too-late: schedule", "crontab:3: at-boot: schedule", "crontab:4: SHELL: ", "crontab:5: the variable in line 4 is wrong", "jobs.yaml:1: "} {
		if i >= len(says) || !strings.HasPrefix(says[i], begins) || !strings.Contains(says[i], "not run") {
			t.Errorf("%d: want one that begins with %s and says that it is not run: %q", i, begins, says)
		}
	}
	if _, err := Load([]string{dir}, testDefaults(), How{}); err == nil {
		t.Error("without --skip-bad-lines it is run")
	}
	if _, err := Load([]string{folder(t, map[string]string{"bad": "0 25 * * * x\n"})}, testDefaults(), How{SkipBad: true}); err == nil {
		t.Error("nothing is left, and that is no error")
	}
}

// A line for the start of the host is no job, for the daemon as for import, and has no name that another line could have.
func TestNamesBesideReboot(t *testing.T) {
	dir := folder(t, map[string]string{"crontab": "@reboot backup\n0 2 * * * backup\n0 3 * * * backup\n"})
	file, err := Load([]string{dir}, testDefaults(), How{SkipBad: true})
	jobs, says := reported(dir, file, err)
	if want := []string{"backup", "backup-2"}; !slices.Equal(jobs, want) {
		t.Errorf("jobs %q, want %q", jobs, want)
	}
	if len(says) != 1 || !strings.HasPrefix(says[0], `crontab:1: backup: schedule: "@reboot"`) {
		t.Errorf("%q", says)
	}
}

// What lies in a directory may be anything: each is one line, and nobody waits.
func TestHostileDirectory(t *testing.T) {
	dir := folder(t, map[string]string{"fine": "0 2 * * * fine\n", "zero": "0 3 * * * x\x00\n", "huge": "", "open": "0 3 * * * x\n"})
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		syscall.Mkfifo(at("fifo"), 0o600), os.Symlink("fine", at("link")), os.Symlink("/dev/zero", at("endless")),
		os.Truncate(at("huge"), maxSize+1), os.Chmod(at("open"), 0o666),
	); err != nil {
		t.Fatal(err)
	}
	file, err := Load([]string{dir}, testDefaults(), How{SkipBad: true})
	jobs, says := reported(dir, file, err)
	const irregular = "it is not a regular file: not run: put the file itself there: what a link or a pipe leads to may be another user's"
	want := []string{
		"endless: " + irregular, "fifo: " + irregular, "link: " + irregular,
		"huge: larger than 16 MB: not run",
		"open: can be written by others (mode 0666): not run: chmod go-w " + dir + "/open",
		"zero:1: there is a zero byte in it: not run: a job file is plain text",
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], dir+"/", "")
	}
	if diff := cmp.Diff(want, says); diff != "" || !slices.Equal(jobs, []string{"fine"}) {
		t.Errorf("%q\n%s", jobs, diff)
	}
	if _, err := Load([]string{dir}, testDefaults(), How{}); len(problems(err)) != len(want) {
		t.Errorf("%v", err)
	}
}

// TestFolderOfOthers: hazard: who can rename a folder above a file decides what root runs.
func TestFolderOfOthers(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "jobs.d")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "a"), []byte("0 2 * * * root x\n"), 0o600), os.Chmod(parent, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		how  How
	}{{dir, How{}}, {dir, How{System: true}}, {filepath.Join(dir, "a"), How{System: true}}, {filepath.Join(dir, "a"), How{}}} {
		if os.Geteuid() != 0 && c == (struct {
			path string
			how  How
		}{filepath.Join(dir, "a"), How{}}) {
			continue // it is only root's jobs that this decides about
		}
		_, err := Load([]string{c.path}, testDefaults(), c.how)
		if e, ok := errors.AsType[*ownership.Error](err); !ok || e.Path != parent {
			t.Errorf("%s, %+v: %v", c.path, c.how, err)
		}
	}
}

// TestLinkToFolderOfOthers: hazard: so does who can rename the folder that a link in root's own leads to.
func TestLinkToFolderOfOthers(t *testing.T) {
	parent, own := t.TempDir(), t.TempDir()
	dir, link := filepath.Join(parent, "theirs"), filepath.Join(own, "link")
	file := filepath.Join(dir, "a")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte("0 2 * * * root x\n"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{link}, testDefaults(), How{System: true}); err != nil {
		t.Errorf("a link between folders that are root's: %v", err)
	}
	if err := os.Chmod(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := Load([]string{link}, testDefaults(), How{System: true})
	if e, ok := errors.AsType[*ownership.Error](err); !ok || e.Path != parent {
		t.Errorf("%v", err)
	}
}

// A system crontab has a user before each command. Who has no line in /etc/passwd could only be root, and is refused.
func TestUserColumn(t *testing.T) {
	read := func(text string) (*File, error) {
		dir := folder(t, map[string]string{"jobs": text})
		file, err := Load([]string{dir}, testDefaults(), How{System: true})
		return file, err
	}
	file, err := read("0 2 * * * root report --full\n@daily root\tsync now\n# job: named\n0 3 * * *   root   x%stdin\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ name, command string }{{"report", "report --full"}, {"sync-now", "sync now"}, {"named", "x"}} {
		if j := file.Jobs[i]; j.Name != want.name || j.User != "root" || j.Argv[2] != want.command || j.Dir != "" {
			t.Errorf("%+v", j)
		}
	}
	for text, says := range map[string]string{
		"0 2 * * * nobody-here report\n":    `the sixth word, "nobody-here", is no user`,
		"0 2 * * * 0 report\n":              "the sixth word is no user",
		"0 2 * * * PASSWORD=hunter2 x\n":    "the sixth word is no user",
		"0 2 * * * root\n":                  "there is no command behind the user",
		"0 2 * * * report --full\n":         `the sixth word, "report", is no user`,
		"HOME=relative\n0 2 * * * root x\n": "HOME",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
	dir := folder(t, map[string]string{"jobs.yaml": "jobs: {a: {every: 1m, command: [x]}}\n"})
	if _, err := Load([]string{dir}, testDefaults(), How{System: true}); err == nil || !strings.Contains(err.Error(), "no column for users") {
		t.Errorf("%v", err)
	}
}
