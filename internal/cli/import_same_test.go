package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/internal/importer"
)

var importSeed = flag.Uint64("import-seed", 27, "of the lines that the tests of import make up")

// programs are those of the lines. Each is the same one, which writes down what it was started with; what those of the second line were
// started with is a command, which they start.
var (
	programs = strings.Fields(`php python3 pg_dump mysqldump gzip curl rsync tar find backup.sh report make logger restic psql node rake wp sync-all`)
	starting = strings.Fields(`chronic sudo setlock su`)
)

// recordingProgram writes one line for each start, when stdin is at its end: what it got is all that can differ.
const recordingProgram = `#!/bin/sh
in= line=
while IFS= read -r line; do in="$in$line|"; done
for a; do args="$args [$a]"; done
printf '%s\n' "${0##*/}$args <$in$line> A=$A B=$B HOME=$HOME TZ=$TZ LOCK=$CRONLOCK_KEY in $PWD" >>"$RECORD"
echo "from ${0##*/}"
case " $* " in *" --fail "*) exit 3 ;; esac
`

// startingProgram knows the words before a command of the programs that it stands for.
const startingProgram = `#!/bin/sh
case ${0##*/} in
su) while [ "$1" != -c ]; do shift; done; exec sh -c "$2" ;;
esac
while :; do case $1 in -u) shift 2 ;; -* | *.lck) shift ;; *) break ;; esac; done
exec "$@"
`

// standIn does what run does with a command, without a lease.
const standIn = `#!/bin/sh
shift
shell=
while :; do
	case $1 in
	--shell) shell=1; shift ;;
	--) shift; break ;;
	-*=*) shift ;;
	-*) shift 2 ;;
	*) break ;;
	esac
done
shift
[ "$1" != -- ] || shift
[ -z "$shell" ] || exec sh -c "$1"
exec "$@"
`

// lineMaker makes up lines of crontabs like those that people write.
type lineMaker struct{ *rand.Rand }

func (m lineMaker) pick(of ...string) string { return of[m.IntN(len(of))] }

func (m lineMaker) word() string {
	return m.pick("--full", "-v", "--user=app", "-e", "/srv/data", "./x", "a b", `'a b'`, `"a b"`, `"$A"`, "$B", "${A}", `it\'s`, `"it's"`, `\$A`, "a=b", "x:y@z", "--fail", "é",
		`$(echo sub)`, "`echo old`", `\%d`, `"+\%Y"`, `'{"k": "v"}'`, "*.none", "~", "#x", `''`, `"\\"`, `a\\b`, "{1,2}", "!", `-i '0,3s/a/b/'`, "schedule:run", "--name='x y'", `$((1 + 2))`, `"$(echo "in in")"`)
}

func (m lineMaker) command(depth int) string {
	lock := fmt.Sprintf("%d.lck ", m.IntN(1_000_000)) // each its own: who of two has one is chance
	c := m.pick("", "", "", "", "/usr/bin/env ", "nice -n 5 ", "A=z ", "timeout 50 ", "timeout -k 5 1m ", "flock -n "+lock, "flock -w 9 "+lock, "setlock -n "+lock, "chronic ", "sudo -u app ", "exec ", "cd /tmp && ", "cd / ; ", "test -d / && ", "[ -x /bin/sh ] && ", "umask 022; ", "sleep 0; ", "export B=y; ", ". /dev/null; ")
	c += m.pick(programs...)
	for range m.IntN(4) {
		c += m.pick(" ", " ", "  ") + m.word()
	}
	c += m.pick("", "", "", " >/dev/null 2>&1", " >>log 2>&1", " 2>/dev/null", " </dev/null", " &>/dev/null", " > /dev/null")
	if depth == 0 {
		return c
	}
	switch m.IntN(14) {
	case 0:
		return c + " | " + m.command(depth-1)
	case 1:
		return c + " && " + m.command(depth-1)
	case 2:
		return c + " || " + m.command(depth-1)
	case 3:
		return c + "; " + m.command(depth-1)
	case 4:
		return "( " + m.command(depth-1) + " )"
	case 5:
		return "{ " + m.command(depth-1) + "; }"
	case 6:
		return "if true; then " + m.command(depth-1) + "; fi"
	case 7:
		return "for i in 1 2; do " + m.command(depth-1) + "; done"
	case 8:
		return m.pick("sh -c ", "bash -c ", "bash --noprofile -lc ", "su - app -c ", "flock -n "+lock+"-c ") + "'" + strings.ReplaceAll(m.command(depth-1), "'", `'\''`) + "'"
	}
	return c
}

// crontab is one job, below some variables.
func (m lineMaker) crontab() string {
	var b strings.Builder
	for range m.IntN(3) {
		b.WriteString(m.pick("A=one\n", "B=\"two words\"\n", "A = 'q'\n", "MAILTO=me\n", "SHELL=/bin/bash\n", "SHELL=/bin/sh\n", "CRONLOCK_KEY=k\n", "# nightly\n", "# job: mine\n"))
	}
	b.WriteString("0 2 1 1 *" + m.pick(" ", "\t", "  ") + m.command(m.IntN(3)) + m.pick("", "", "", "", " ", " # why", `%in`, `%one%two\%%`) + "\n")
	return b.String()
}

// imported is the crontab as import writes it; ok is false where that leaves the line.
func imported(t *testing.T, text string) (after string, ok bool) {
	t.Helper()
	files, _ := importer.Import([]importer.Source{{Path: "crontab", Text: []byte(text)}}, importer.Options{})
	return string(files[0].After), files[0].Wrapped() == 1
}

// asCron runs the one job of a crontab as cron does, in a folder of its own, and returns what was done. More than one hosts do so at once.
func asCron(t *testing.T, bin, text string, hosts int) string {
	t.Helper()
	dir := t.TempDir()
	shell, env := "/bin/sh", []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=/", "RECORD=" + filepath.Join(dir, "record"), "LEADERRUN_BACKEND=file://" + dir + "/store"}
	var script, stdin string
	for _, l := range crontab.Parse([]byte(text), crontab.User) {
		switch l.Kind {
		case crontab.Setting:
			if env = append(env, l.Name+"="+l.Value); l.Name == "SHELL" {
				shell = l.Value
			}
		case crontab.Job:
			script, stdin = l.Script(crontab.User)
		case crontab.Blank, crontab.Comment, crontab.Broken:
		}
	}
	ends := make([]string, hosts)
	var all sync.WaitGroup
	for i := range ends {
		cmd := exec.Command(shell, "-c", script)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(stdin)
		var out bytes.Buffer
		cmd.Stdout = &out // what the shell says of its own line names that
		all.Go(func() {
			err := cmd.Run()
			said := slices.Sorted(strings.Lines(out.String())) // what runs at the same time is in no order
			ends[i] = fmt.Sprintf("%s%v", strings.Join(said, ""), err)
		})
	}
	all.Wait()
	refused := func(end string) bool { // what a host says that did not run the job; 111 is what setlock ends with
		return slices.Contains([]string{"<nil>", "exit status 76", "exit status 111"}, end)
	}
	if refused(ends[0]) {
		slices.Reverse(ends)
	}
	record, _ := os.ReadFile(filepath.Join(dir, "record")) // none: nothing was started
	lines := slices.Sorted(strings.Lines(strings.ReplaceAll(string(record), dir, "DIR")))
	return strings.Join(lines, "") + ends[0]
}

func programsIn(t *testing.T, leaderrun func(path string) error) (bin string) {
	t.Helper()
	bin = t.TempDir()
	write := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o755) } //nolint:gosec // programs
	for text, names := range map[string][]string{recordingProgram: programs, startingProgram: starting} {
		for _, name := range names {
			if err := write(filepath.Join(bin, name), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if leaderrun == nil {
		leaderrun = func(path string) error { return write(path, standIn) }
	}
	if err := leaderrun(filepath.Join(bin, "leaderrun")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// The promise of import: a line that is wrapped starts the same programs with the same arguments, stdin and environment, and ends with the
// same code, as the line did before.
func TestImportedLinesDoTheSame(t *testing.T) {
	t.Parallel()
	bin := programsIn(t, nil)
	lines := 2000
	if testing.Short() {
		lines = 200
	}
	t.Logf("-import-seed %d", *importSeed)
	m := lineMaker{rand.New(rand.NewPCG(*importSeed, 0))}
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	wrapped := 0
	for range lines {
		text := m.crontab()
		after, ok := imported(t, text)
		if !ok {
			continue
		}
		wrapped++
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if want, got := asCron(t, bin, text, 1), asCron(t, bin, after, 1); want != got {
				t.Errorf("%s\ndid\n%s\n%s\ndoes\n%s", text, want, after, got)
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d lines were wrapped", wrapped, lines)
	if wrapped < lines/2 {
		t.Error("too few to tell")
	}
}

// Two hosts that have an imported line do together, and with a lease, what one did before.
func TestImportedLinesRunOnceOnTwoHosts(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := programsIn(t, func(path string) error { return os.Symlink(self, path) })
	lines := 60
	if testing.Short() {
		lines = 10
	}
	t.Logf("-import-seed %d", *importSeed)
	m := lineMaker{rand.New(rand.NewPCG(*importSeed, 1))}
	for lines > 0 {
		text := m.crontab()
		after, ok := imported(t, text)
		if !ok {
			continue
		}
		lines--
		if want, got := asCron(t, bin, text, 1), asCron(t, bin, after, 2); want != got {
			t.Errorf("%s\ndid\n%s\n%s\ndoes on two hosts\n%s", text, want, after, got)
		}
	}
}
