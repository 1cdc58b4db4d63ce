package importer

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/internal/crontab"
	"github.com/leaderrun/leaderrun/schedule"
	"github.com/leaderrun/leaderrun/test/servers"
)

var update = flag.Bool("update", false, "write the golden file anew")

// shipped returns crontabs like those that distributions and projects ship.
func shipped(t testing.TB) []Source {
	t.Helper()
	paths, err := filepath.Glob("testdata/crontabs/*")
	if err != nil || len(paths) < 60 {
		t.Fatalf("%d crontabs: %v", len(paths), err)
	}
	var all []Source
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		format := map[string]crontab.Format{".user": crontab.User, ".system": crontab.System, ".supercronic": crontab.Supercronic}[filepath.Ext(path)]
		all = append(all, Source{Path: filepath.Base(path), Text: text, Format: format})
	}
	return all
}

// What becomes of them is seen in review. The names in it are a contract.
func TestRealCrontabs(t *testing.T) {
	var got bytes.Buffer
	for _, s := range shipped(t) {
		f := one(t, s.Format, string(s.Text), Options{})
		f.Path = s.Path
		got.WriteString(f.Diff())
		for _, j := range f.Jobs {
			if j.Word != Wrapped {
				fmt.Fprintf(&got, "%s:%d: %s: %s\n", s.Path, j.Line, j.Word, j.Why)
			}
		}
		same(t, f)
	}
	const golden = "testdata/crontabs.diff"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("go test ./internal/importer -update writes it anew:\n%s", diff)
	}
}

// origin is the instant from which the tests look for the next one.
var origin = time.Date(2027, 1, 13, 9, 13, 0, 0, time.UTC)

// same compares a crontab and what it was imported to, as cron of Debian reads both.
func same(t testing.TB, f *File) {
	t.Helper()
	if f.Format == crontab.Supercronic {
		return
	}
	before, err := crontab.Load(f.Text, f.Format, crontab.Debian)
	if err != nil {
		wrong, _ := errors.AsType[*crontab.LoadError](err)
		if _, err := crontab.Load(f.After, f.Format, crontab.Debian); err == nil && !strings.Contains(wrong.Why, "newline") {
			t.Errorf("%q loads, and did not: %v", f.After, wrong)
		}
		return
	}
	after, err := crontab.Load(f.After, f.Format, crontab.Debian)
	if err != nil || len(before) != len(after) {
		t.Errorf("%q does not load, or other lines: %v", f.After, err)
		return
	}
	if was, is := environments(f.Text, f.Format), environments(f.After, f.Format); was != is {
		t.Errorf("%q has other variables above its lines", f.After)
	}
	for i, a := range after {
		b := before[i]
		script, stdin := crontab.SplitPercent(strings.TrimLeft(a.Command, " \t"))
		was, read := crontab.SplitPercent(strings.TrimLeft(b.Command, " \t")) // behind a user
		b.Line, b.Command = a.Line, a.Command
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("%q: another line for cron:\n%s", before[i].Command, diff)
		}
		whole := crontab.Read("", script)
		run, ok := whole.Run()
		if script == was || !ok {
			if script != was {
				t.Errorf("%q became %q", was, script)
			}
			continue
		}
		if stdin != read {
			t.Errorf("%q: reads %q, and read %q", was, stdin, read)
		}
		s, err := schedule.Parse(run.Options["schedule"], "UTC")
		if err != nil {
			t.Errorf("%q: %v", script, err)
			continue
		}
		tick, _ := s.Next(origin)
		if due := next(a, origin); !tick.Equal(due) {
			t.Errorf("%q: cron starts it at %s, its tick is at %s", script, due, tick)
		}
		command(t, script, was, whole.Tokens, &run)
	}
}

// command compares what a run runs with what ran before, where nothing was taken off.
func command(t testing.TB, script, was string, tokens []crontab.Token, run *crontab.Run) {
	t.Helper()
	if run.To != len(tokens) || len(run.Command) == 0 {
		t.Errorf("%q: something stands beside the run", script)
		return
	}
	if slices.ContainsFunc([]string{"flock", "lock", "timeout"}, func(s string) bool { return strings.Contains(was, s) }) {
		return
	}
	words := func(tokens []crontab.Token) (words []string) {
		for _, token := range tokens {
			words = append(words, token.Text)
		}
		return words
	}
	plain, _ := crontab.Tokens(was)
	if run.Command[len(run.Command)-1].Text == was || slices.Equal(words(plain), words(run.Command)) {
		return
	}
	t.Errorf("%q became %q", was, script)
}

// environments are the variables of a crontab, each where it stands among the jobs.
func environments(text []byte, f crontab.Format) (all string) {
	for _, l := range crontab.Parse(text, f) {
		switch l.Kind {
		case crontab.Setting:
			all += l.Text
		case crontab.Job, crontab.Broken: // only for us
			all += "job\n"
		case crontab.Blank, crontab.Comment:
		}
	}
	return all
}

// next is when cron of Debian runs an entry, in UTC.
func next(e crontab.Entry, after time.Time) time.Time {
	text := e.Fields
	if text[0] == '@' {
		text = map[string]string{
			"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
			"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
		}[text]
	}
	f := strings.Fields(text)
	minutes, hours, days, months, weekdays := set(f[0], 0, 59), set(f[1], 0, 23), set(f[2], 1, 31), set(f[3], 1, 12), set(f[4], 0, 7)
	weekdays |= weekdays >> 7
	day := after.Truncate(24 * time.Hour)
	for range 9 * 366 {
		inMonth, inWeek := days>>day.Day()&1 == 1, weekdays>>day.Weekday()&1 == 1
		due := inMonth || inWeek
		if f[2][0] == '*' || f[4][0] == '*' {
			due = inMonth && inWeek
		}
		if due && months>>day.Month()&1 == 1 {
			for minute := range 24 * 60 {
				at := day.Add(time.Duration(minute) * time.Minute)
				if at.After(after) && hours>>(minute/60)&1 == 1 && minutes>>(minute%60)&1 == 1 {
					return at
				}
			}
		}
		day = day.Add(24 * time.Hour)
	}
	return time.Time{}
}

// set has a bit for each number of a field that cron takes.
func set(field string, low, high int) (bits uint64) {
	number := func(text string) int {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		return low + strings.Index("jan feb mar apr may jun jul aug sep oct nov dec sun mon tue wed thu fri sat", strings.ToLower(text))/4%12
	}
	for element := range strings.SplitSeq(field, ",") {
		span, by, stepped := strings.Cut(element, "/")
		first, last, ranged := strings.Cut(span, "-")
		from, to, step := low, high, 1
		if span != "*" {
			from = number(first)
			if to = from; ranged {
				to = number(last)
			}
		}
		if stepped {
			step = number(by)
		}
		for ; from <= to; from += step {
			bits |= 1 << from
		}
	}
	return bits
}

// FuzzImport: cron of Debian reads the same lines before and after, each at the same times and for the same user; a tick is when cron
// starts it; it runs the same command with the same stdin; and the second time changes nothing.
func FuzzImport(f *testing.F) {
	for _, s := range shipped(f) {
		f.Add(s.Text, s.Format == crontab.System)
	}
	f.Add([]byte("5~7 * * * * x\n-0 2 * * * y\n*/61 * * * * z\n@every 5m x\n=2\n0 2 * * * a\\\\%b'\\''c\n"), false)
	f.Add([]byte("=0\n0 0 1 1 0 *0\n"), false) // cron takes no command that begins with *
	f.Add([]byte("0 2 * * * a \\ \n"), false)  // a quoted blank at the end
	f.Add([]byte("A='b\n0 2 * * * x\r\n\xff\x00"), true)
	f.Fuzz(func(t *testing.T, text []byte, system bool) {
		if bytes.IndexByte(text, 0) >= 0 {
			return // Read refuses it
		}
		format := crontab.User
		if system {
			format = crontab.System
		}
		file := one(t, format, string(text), Options{})
		same(t, file)
	})
}

var inputs = flag.Int("inputs", 3000, "how many crontabs TestRandomCrontabs makes up")

// The same as FuzzImport of crontabs that are made up of what is odd in them.
func TestRandomCrontabs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 20))
	pick := func(words []string) string { return words[random.IntN(len(words))] }
	fields := strings.Fields("* 0 1 5 7 12 30 */2 */15 1-5 0-7 1,3 jan MON sun-sat mon-fri/2 0-59/7 08 00 31 5/3 5~9 */99 x 1-2-3 60 ? L *x 4294967301")
	blanks := []string{" ", "  ", "\t"}
	pieces := strings.Split(`/opt/a |echo |x|'a b'|"$A"|'|"|\|\%|\\|%|;|&&|>/dev/null|2>&1|#|$(date)|*|{ |}|sh -c |flock -n /tmp/x |nice |timeout 5 |leaderrun run |--schedule |root |é| |~|A=b |cd / && `, "|")
	pieces = append(pieces, "|", " || ", "| ")
	settings := []string{"A=b\n", "SHELL=/bin/bash\n", "CRON_TZ=UTC\n", "TZ=UTC\n", "A=\n", "A='b\n", "# x\n", "# job: n\n", "\n", " \n", "@daily", "export A=b\n", mark + "x\n", "=2\n"}
	for range *inputs {
		var b strings.Builder
		system := random.IntN(3) == 0
		for range 1 + random.IntN(3) {
			if random.IntN(4) == 0 {
				b.WriteString(pick(settings))
				continue
			}
			if random.IntN(6) == 0 {
				b.WriteString(pick([]string{"@daily ", "@hourly\t", "@weekly ", "@yearly ", "@reboot ", "@Daily ", "@every 5m ", "-@monthly "}))
			} else {
				for i := range 5 {
					common := []string{"*", "0", "1"}
					if random.IntN(3) == 0 || i == 0 {
						common = fields
					}
					b.WriteString(pick(common) + pick(blanks))
				}
			}
			if system {
				b.WriteString(pick([]string{"root ", "www-data\t", "* "}))
			}
			for range random.IntN(7) {
				b.WriteString(pick(pieces))
			}
			b.WriteString(pick([]string{"\n", "\n", "\n", "\n", "\n", "\r\n", ""}))
		}
		format := crontab.User
		if system {
			format = crontab.System
		}
		file := one(t, format, b.String(), Options{})
		same(t, file)
		if t.Failed() {
			t.Fatalf("%q", b.String())
		}
	}
}

// A shell does the same with a wrapped command as with the one before.
func TestWrappedCommandsDoTheSame(t *testing.T) {
	dir := t.TempDir()
	const stub = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do [ \"$1\" != --shell ] || shell=1; shift; done\nshift\n[ -z \"$shell\" ] || exec sh -c \"$1\"\nexec \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "leaderrun"), []byte(stub), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	do := func(command string) string {
		script, stdin := crontab.SplitPercent(command)
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":/usr/bin:/bin", "A=a b"}
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	}
	commands := []string{
		`echo a  b 'c  d' "e $A" $A \$A`, `printf '%s\n' "it's" 'say "x"'`, `printf \%s\\n x`, `cat%one%two\%three`, `echo a; cat%x`, `env printf '<\%s>' a\ b "c'd" ''`,
		`false || echo "no: $?"`, `echo x | tr x y`, `echo a#b # c`, `expr 1 + 1 >&2`, "echo `expr 2 + 2`", `A=z; echo "$A"`, `env echo '\'`, `/bin/echo \\ "\\"`, `exit 3`, `env echo *leader*`, `env echo ~root`,
	}
	random := rand.New(rand.NewPCG(1, 2))
	pieces := strings.Split(`/bin/echo |printf |a|b c|'|"|\|\\|$A|\%| |;|'x'|"y"|&&|#|%|*|`+"`"+`|(|)|>&2`, "|")
	n := 400
	if testing.Short() {
		n = 30
	}
	for range n {
		command := "/bin/echo "
		for range 1 + random.IntN(8) {
			command += pieces[random.IntN(len(pieces))]
		}
		commands = append(commands, command)
	}
	// How an error of the shell begins does not count, nor does which of two programs at the same time is the first to speak.
	strip := func(said string) string {
		letters := []byte(strings.NewReplacer("/bin/sh: ", "", "sh: ", "", "1: ", "").Replace(said))
		slices.Sort(letters)
		return string(letters)
	}
	for _, c := range commands {
		f := one(t, crontab.User, "0 2 * * * "+c+"\n", Options{})
		if len(f.Jobs) != 1 || f.Jobs[0].Word == Left {
			continue
		}
		wrapped := f.Jobs[0].command()
		want, got := do(c), do(wrapped)
		if want != got && strip(want) != strip(got) {
			t.Errorf("%s: %q\n%s: %q", c, want, wrapped, got)
		}
	}
}

// crontab of Debian takes them all.
func TestCrontabTakesRealCrontabs(t *testing.T) {
	if testing.Short() {
		servers.SkipShort(t)
	}
	if _, err := exec.LookPath("crontab"); err != nil {
		servers.Lack(t, "cron", "there is no crontab")
	}
	for _, s := range shipped(t) {
		if s.Format != crontab.User {
			continue
		}
		f := one(t, s.Format, string(s.Text), Options{})
		path := filepath.Join(t.TempDir(), "crontab")
		if err := os.WriteFile(path, f.After, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("crontab", "-n", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "successfully checked") {
			t.Errorf("%s: %v: %s", s.Path, err, out)
		}
	}
}

// Debian's cron loads each crontab before and after, and starts each line for the first time at the same minute. Of the other lines of
// that crontab those start then that are due by our own reading.
func TestRealCrontabsUnderCron(t *testing.T) {
	if testing.Short() {
		servers.SkipShort(t)
	}
	dir := servers.OpenDir(t)
	tabs := map[string]string{}
	loaded := map[string][]crontab.Entry{}
	minutes := map[time.Time][]string{}
	lines := 0
	for i, s := range shipped(t) {
		if s.Format == crontab.Supercronic {
			continue
		}
		f := one(t, s.Format, string(s.Text), Options{})
		for side, text := range map[string][]byte{"before": f.Text, "after": f.After} {
			name := fmt.Sprintf("t%02d-%s", i, side)
			tabs[name] = recorded(crontab.Parse(text, s.Format), filepath.Join(dir, name))
			entries, err := crontab.Load([]byte(tabs[name]), crontab.System, crontab.Debian)
			if err != nil {
				t.Fatalf("%s: %v\n%s", s.Path, err, tabs[name])
			}
			loaded[name] = entries
			for _, e := range entries {
				lines++
				if e.Fields == "@reboot" {
					continue
				}
				if at := next(e, origin); !slices.Contains(minutes[at], name) {
					minutes[at] = append(minutes[at], name)
				}
			}
		}
	}
	servers.CronAt(t, dir, tabs, minutes)
	for at, names := range minutes {
		var want []string
		for _, name := range names {
			for _, e := range loaded[name] {
				if e.Fields != "@reboot" && next(e, at.Add(-time.Second)).Equal(at) {
					want = append(want, fmt.Sprintf("%s:%d", name, e.Line))
				}
			}
		}
		got := strings.Fields(servers.CronSaw(t, dir, at))
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at %s (-want +got):\n%s", at, diff)
		}
		if len(names)%2 != 0 {
			t.Errorf("at %s: only one side of %q", at, names)
		}
	}
	t.Logf("%d crontabs, %d lines at %d minutes", len(tabs)/2, lines/2, len(minutes))
}

// recorded makes a system crontab of root, in which a program writes down in place of the command which line started.
func recorded(lines []crontab.Line, shell string) string {
	var b strings.Builder
	for _, l := range lines {
		switch {
		case l.Kind == crontab.Setting && (l.Name == "SHELL" || l.Name == "MAILTO"):
			b.WriteString("#\n")
		case l.Kind == crontab.Job:
			before := strings.TrimSuffix(l.Text[:l.At], l.User+strings.TrimPrefix(l.Text[:l.At], strings.TrimRight(l.Text[:l.At], " \t")))
			if l.User == "" {
				before = l.Text[:l.At]
			}
			fmt.Fprintf(&b, "%s root :LINE: %s", before, l.Text[l.At:])
		default:
			b.WriteString(l.Text)
		}
	}
	text := "SHELL=" + shell + "\n" + b.String()
	n := 0
	var out strings.Builder
	for line := range strings.Lines(text) {
		n++
		out.WriteString(strings.Replace(line, ":LINE:", fmt.Sprint(n), 1))
	}
	return out.String()
}
