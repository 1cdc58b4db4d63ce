package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/leaderrun/leaderrun/internal/cli" // go test keeps a result until what it is made of changes: the program is part of that
	"github.com/leaderrun/leaderrun/test/servers"
)

// The release that is made here.
const (
	version = "1.2.3"
	commit  = "0123456789abcdef0123456789abcdef01234567"
	epoch   = "1700000000" // 2023-11-14T22:13:20Z
	changes = "- The wheel was invented ([why](docs/design/adr/)), and [fire](docs/cron.md#overlap) kept."
	pages   = "https://github.com/leaderrun/leaderrun/blob/v" + version + "/"
)

// made is where the release is.
var made string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	made = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// first makes the release, once for all tests.
var first = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(made, "first")
	if err := copyTree("../..", dir); err != nil {
		return "", err
	}
	return filepath.Join(dir, "dist"), makeRelease(dir, nil)
})

// release returns the folder with what was made, for this machine's kind of processor.
func release(t *testing.T) string {
	t.Helper()
	servers.SkipShort(t)
	if runtime.GOOS != "linux" {
		t.Skip("what is tried here is for Linux")
	}
	if _, err := exec.LookPath("make"); err != nil {
		servers.Lack(t, "make", "make is not installed")
	}
	dir, err := first()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// artefact returns the one file of the release that fits a pattern.
func artefact(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(release(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// copyTree copies what the release is made of, and gives the changelog a section for it.
func copyTree(from, to string) error {
	if err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == ".git" || name == "dist" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o755) //nolint:gosec // as the source
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || name == "leaderrun" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
	}); err != nil {
		return err
	}
	changelog, err := os.OpenFile(filepath.Join(to, "CHANGELOG.md"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(changelog, "\n## [%s]\n\n%s\n\n## [0.0.1]\n\n- Fire.\n", version, changes)
	return errors.Join(err, changelog.Close())
}

// makeRelease calls make in a folder, with more variables, behind words that start it elsewhere.
func makeRelease(dir string, env []string, before ...string) error {
	words := append(slices.Clone(before), "make", "-s", "release", "VERSION=v"+version, "PLATFORMS=linux/"+runtime.GOARCH)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch, "COMMIT="+commit), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, out)
	}
	return nil
}

// Elsewhere, with another umask, time zone, home and number of processors, and without a network, come the same bytes.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	one := release(t)
	dir := filepath.Join(made, "second", "deeper")
	if err := copyTree("../..", dir); err != nil {
		t.Fatal(err)
	}
	env := []string{"TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "GOMAXPROCS=1", "GOPROXY=off", "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	before := []string{"sh", "-c", `umask 077; exec "$@"`, "sh"}
	if os.Geteuid() == 0 {
		before = append([]string{"unshare", "--net"}, before...)
	}
	if err := makeRelease(dir, env, before...); err != nil {
		t.Fatal(err)
	}
	a, b := sums(t, one), sums(t, filepath.Join(dir, "dist"))
	if len(a) < 8 {
		t.Errorf("only %d files: %v", len(a), a)
	}
	for name, sum := range a {
		if b[name] != sum {
			t.Errorf("%s is not the same a second time", name)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d files, and then %d", len(a), len(b))
	}
}

// sums returns mode and checksum of the files in a folder.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = e.Type().String() + hex.EncodeToString(sum[:])
	}
	return all
}

func TestChecksums(t *testing.T) {
	t.Parallel()
	dir := release(t)
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(out), ": OK"); got != len(entries)-1 {
		t.Errorf("%d checksums for %d files", got, len(entries)-1)
	}
}

// What is new in the release, and nothing else, is what its page says.
func TestChanges(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(artefact(t, "CHANGES.md"))
	if want := strings.NewReplacer("(docs/design/adr/)", "("+pages+"docs/design/adr)", "(docs/cron.md", "("+pages+"docs/cron.md").Replace(changes) + "\n"; err != nil || string(text) != want {
		t.Errorf("%q, want %q; %v", text, want, err)
	}
}

// The pages that are installed lead to a file beside them, or to one of this version's source on the web.
func TestLinks(t *testing.T) {
	t.Parallel()
	deb, archive := t.TempDir(), t.TempDir()
	run(t, "dpkg-deb", "-x", artefact(t, "*.deb"), deb)
	run(t, "tar", "-C", archive, "--strip-components", "1", "-xzf", artefact(t, "*.tar.gz"))
	link := regexp.MustCompile(`\]\(([^)#\s]+)`)
	for _, dir := range []string{filepath.Join(deb, "usr/share/doc/leaderrun"), archive} {
		elsewhere := 0
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			page, err := os.ReadFile(path)
			for _, m := range link.FindAllStringSubmatch(string(page), -1) {
				target, ours := strings.CutPrefix(m[1], pages)
				switch {
				case ours:
					elsewhere++
					target = filepath.Join("../..", target)
				case strings.Contains(target, "://"):
					continue
				default:
					target = filepath.Join(filepath.Dir(path), target)
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: %s leads nowhere", path, m[1])
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if elsewhere < 10 {
			t.Errorf("%s leads to %d pages of the source", dir, elsewhere)
		}
	}
}

// What README's table of ways to install it names, there is.
func TestReadmeNamesWhatIsMade(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`leaderrun[_-]VERSION[\w.]+`).FindAllString(string(page), -1)
	if len(names) != 3 {
		t.Errorf("README names %q", names)
	}
	for _, name := range names {
		artefact(t, strings.NewReplacer("VERSION", version, "amd64", runtime.GOARCH).Replace(name))
	}
}

// A release that cannot be one is refused before anything is built.
func TestRefusedReleases(t *testing.T) {
	t.Parallel()
	release(t)
	for version, want := range map[string]string{
		"1.2.3":                     "is no version",
		"v1.2":                      "is no version",
		"v1.2.3-foo1":               "is no version",
		"":                          "is no version",
		"v1.2.3';touch${IFS}came;'": "is no version",
		"v1.2.3$(shell touch came)": "is no version",
		"v9.9.9":                    `CHANGELOG.md has no section ## \[9.9.9\]`,
	} {
		cmd := exec.Command("make", "-s", "release", "VERSION="+version)
		cmd.Dir, cmd.Env = filepath.Join(made, "first"), append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch, "COMMIT="+commit)
		out, err := cmd.CombinedOutput()
		if err == nil || !regexp.MustCompile(want).Match(out) {
			t.Errorf("VERSION=%s: %v: %s", version, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(made, "first", "came")); err == nil {
		t.Error("the name of a version was run")
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	name := "leaderrun_" + version + "_linux_" + runtime.GOARCH
	dir := t.TempDir()
	run(t, "tar", "-C", dir, "-xzf", artefact(t, name+".tar.gz"))
	program := filepath.Join(dir, name, "leaderrun")
	if got, want := run(t, program, "version"), "leaderrun v1.2.3 commit 0123456789ab of 2023-11-14T22:13:20Z go"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, file := range []string{"LICENSE", "README.md", "leaderrun.1", "completions/leaderrun.bash", "examples/crontab/crontab", "examples/systemd/feed.env"} {
		if _, err := os.Stat(filepath.Join(dir, name, file)); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(run(t, "tar", "-tzf", artefact(t, name+".tar.gz")), ".go\n") {
		t.Error("what tests the examples is in the archive")
	}

	// Static and stripped. Whatever looks methods up by name, as text/template does, would keep every method of every type: 8 MB.
	said := run(t, "go", "version", "-m", program)
	if !strings.Contains(said, "CGO_ENABLED=0") {
		t.Errorf("it may not be static: %s", said)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	const most = 20_000_000
	if info.Size() > most {
		t.Errorf("the program has %d bytes, more than %d", info.Size(), most)
	}

	// The bill of materials names each module that the program does.
	var bill struct {
		SPDXVersion string
		Packages    []struct{ Name, VersionInfo string }
	}
	text, err := os.ReadFile(artefact(t, name+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &bill); err != nil || bill.SPDXVersion != "SPDX-2.3" {
		t.Fatalf("%v: %.200s", err, text)
	}
	known := map[string]string{}
	for _, p := range bill.Packages {
		known[p.Name] = p.VersionInfo
	}
	modules := regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(said, -1)
	for _, m := range modules {
		if known[m[1]] != m[2] {
			t.Errorf("the bill has %s in %q, the program in %s", m[1], known[m[1]], m[2])
		}
	}
	if len(modules) < 10 || known["github.com/leaderrun/leaderrun"] != "v"+version || "go"+known["stdlib"] != runtime.Version() {
		t.Errorf("%d modules; %v", len(modules), known)
	}
}

// run runs a program to its end, which must be a good one, and returns what it says.
func run(t *testing.T, words ...string) string {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(words, " "), err, out, &wrong)
	}
	return string(out)
}

func command(words ...string) *exec.Cmd { return exec.Command(words[0], words[1:]...) }
