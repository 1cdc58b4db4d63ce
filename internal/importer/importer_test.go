package importer

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

// one imports a crontab, twice: the second time changes nothing.
func one(t *testing.T, f crontab.Format, text string, o Options) (*File, []Note) {
	t.Helper()
	files, notes := Import([]Source{{"crontab", []byte(text), f}}, o)
	again, _ := Import([]Source{{"crontab", files[0].After, f}}, o)
	if again[0].Changed() {
		t.Errorf("changed when imported again:\n%s", again[0].Diff())
	}
	return files[0], notes
}

func TestLines(t *testing.T) {
	const mark = "# leaderrun import: not wrapped: "
	for _, c := range []struct{ before, after string }{
		{"", ""},
		{"# x\n\nA=b\n", "# x\n\nA=b\n"},
		{"0 2 * * * report --full\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report --full\n"},
		{"  0\t2 * * *   report 'a b' \n", "  0\t2 * * *   leaderrun run --schedule '0 2 * * *' report -- report 'a b'\n"},
		{"0 2 * * * report \\  \n", "0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report \\ \n"},
		{"@daily report", "@daily leaderrun run --schedule @daily report -- report\n"},
		{"-0 2 * * * report\n", "-0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report\n"},
		{"0 2 * * * cd /x && make it's\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' make -- sh -c 'cd /x && make it'\\''s'\n"},
		{"0 2 * * * a >/dev/null 2>&1\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' a -- sh -c 'a >/dev/null 2>&1'\n"},
		{"0 2 * * * A=b c\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' c -- sh -c 'A=b c'\n"},
		{"0 2 * * * report $(date +\\%F)\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' report -- sh -c 'report $(date +\\%F)'\n"},
		{"0 2 * * * report --day=\\%F\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report --day=\\%F\n"},
		{"0 9 * * 1 mail -s x joe%Hi,%%b\\%ye\n", "0 9 * * 1 leaderrun run --schedule '0 9 * * 1' mail -- mail -s x joe%Hi,%%b\\%ye\n"},
		{"0 9 * * 1 a; b%in\n", "0 9 * * 1 leaderrun run --schedule '0 9 * * 1' a -- sh -c 'a; b'%in\n"},
		{"0 9 * * 1 a \\\\ b\n", "0 9 * * 1 leaderrun run --schedule '0 9 * * 1' a -- sh -c 'a \\\\ b'\n"},
		{"SHELL=/bin/bash\n0 2 * * * a | b\n", "SHELL=/bin/bash\n0 2 * * * leaderrun run --schedule '0 2 * * *' a -- /bin/bash -c 'a | b'\n"},
		{"SHELL=/usr/bin/fish\n0 2 * * * a | b\n", "SHELL=/usr/bin/fish\n" + mark + "SHELL=/usr/bin/fish may quote in another way than sh; wrap it by hand\n0 2 * * * a | b\n"},
		{"CRON_TZ=Asia/Tokyo\n0 2 * * * a\n", "CRON_TZ=Asia/Tokyo\n0 2 * * * leaderrun run --schedule '0 2 * * *' --timezone Asia/Tokyo a -- a\n"},
		{"CRON_TZ=Nowhere/X\n0 2 * * * a\n", "CRON_TZ=Nowhere/X\n" + mark + "unknown time zone \"Nowhere/X\"; name one of the IANA database, such as Europe/Berlin or UTC\n0 2 * * * a\n"},
		{"TZ=Asia/Tokyo\n0 2 * * * a\n", "TZ=Asia/Tokyo\n" + mark + "TZ is in force here: leaderrun would take it for the zone of the schedule, and cron takes the host's; name that with --timezone\n0 2 * * * a\n"},
		{"@reboot a\n", mark + "@reboot is no instant that hosts could share; it runs on each host\n@reboot a\n"},
		{"17 * * * * cd / && run-parts --report /etc/cron.hourly\n", mark + "/etc/cron.hourly looks after the host itself; it runs on each host\n17 * * * * cd / && run-parts --report /etc/cron.hourly\n"},
		{"0 2 * * * nice /usr/sbin/fstrim -a\n", mark + "fstrim looks after the host itself; it runs on each host\n0 2 * * * nice /usr/sbin/fstrim -a\n"},
		{"0 2 * * * run-parts /srv/night\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' night -- run-parts /srv/night\n"},
		{"# leaderrun import: leave\n0 2 * * * a\n0 3 * * * b\n", "# leaderrun import: leave\n0 2 * * * a\n0 3 * * * leaderrun run --schedule '0 3 * * *' b -- b\n"},
		{"# leaderrun import: leave\n@reboot a\n", "# leaderrun import: leave\n@reboot a\n"},
		{"5~9 * * * * a\n", mark + "a~b is another time on every host; choose one\n5~9 * * * * a\n"},
		{"0 0 30 2 * a\n", mark + "\"0 0 30 2 *\": day of month: \"30\" does not exist in month \"2\"; name a day that the month has; for its last day let the command look at the date\n0 0 30 2 * a\n"},
		{"* * * * * * a\n", mark + "six fields instead of five; a crontab of supercronic: --from supercronic\n* * * * * * a\n"},
		{"0 2 * * * nohup a &\n", mark + "what & starts would be ended as soon as the line is over; take the & away, or let the line end with `wait`\n0 2 * * * nohup a &\n"},
		{"0 2 * * * a & b --mode wait\n", mark + "what & starts would be ended as soon as the line is over; take the & away, or let the line end with `wait`\n0 2 * * * a & b --mode wait\n"},
		{"0 2 * * * a & b; (wait)\n", mark + "what & starts would be ended as soon as the line is over; take the & away, or let the line end with `wait`\n0 2 * * * a & b; (wait)\n"},
		{"0 2 * * * a & wait; b &\n", mark + "what & starts would be ended as soon as the line is over; take the & away, or let the line end with `wait`\n0 2 * * * a & wait; b &\n"},
		{"0 2 * * * a & b; wait $!\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' a -- sh -c 'a & b; wait $!'\n"},
		{"0 2 * * * a & b & wait\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' a -- sh -c 'a & b & wait'\n"},
		{"0 2 * * * a 2>&1 &>/x && b\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' a -- sh -c 'a 2>&1 &>/x && b'\n"},
		{"0 2 * * *\n", mark + "neither a variable nor a schedule with a command; write minute, hour, day of month, month, day of week and the command\n0 2 * * *\n"},
		{"0 2 * * * a\r\n", mark + "a Windows line end, which cron makes a part of the command; remove it: sed -i 's/\\r$//' FILE\n0 2 * * * a\r\n"},
		{"0 2 * * * %x\n", mark + "there is no command before the %; a plain % is \\%\n0 2 * * * %x\n"},
		{"0 2 * * * \xffa\n", mark + "cron takes no such line: bad day-of-week\n0 2 * * * \xffa\n"},
		{"0 2 * * * leaderrun run x -- y\n", "0 2 * * * leaderrun run x -- y\n"},
		{"0 2 * * * nice leaderrun run a -- y && z\n1 2 * * * a\n", "0 2 * * * nice leaderrun run a -- y && z\n1 2 * * * leaderrun run --schedule '1 2 * * *' a-2 -- a\n"},
		{"0 2 * * * a\n1 2 * * * /x/a.sh\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' a -- a\n1 2 * * * leaderrun run --schedule '1 2 * * *' a-2 -- /x/a.sh\n"},
		{"# job: 100% x\n1 2 * * * a\n", "# job: 100% x\n1 2 * * * leaderrun run --schedule '1 2 * * *' '100\\% x' -- a\n"},
		{"# job: a\\%b\\\\c\n1 2 * * * a\n", "# job: a\\%b\\\\c\n1 2 * * * leaderrun run --schedule '1 2 * * *' 'a\\''\\%b\\''\\c' -- a\n"},
		{
			"# job: n\n0 2 * * * a\n# job: n\n1 2 * * * b\n",
			"# job: n\n0 2 * * * leaderrun run --schedule '0 2 * * *' n -- a\n# job: n\n" + mark + "the name \"n\" is given twice; give each job a name of its own\n1 2 * * * b\n",
		},
		{"# job: n#3\n0 2 * * * a\n", "# job: n#3\n" + mark + "the name in the comment is that of a slot; give the job another name\n0 2 * * * a\n"},
		{"# job: \xff\n0 2 * * * a\n", "# job: \xff\n" + mark + "the name in the comment is not valid UTF-8; give the job another name\n0 2 * * * a\n"},
		{"0 2 * * * date +%F\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * date +%F\n"},
		{"0 2 * * * date \"+%F\"\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * date \"+%F\"\n"},
		{"0 2 * * * P='a%b' c\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * P='a%b' c\n"},
		{"0 2 * * * c --of=5%\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' c -- c --of=5%\n"},
		{"# job: n\n" + mark + "no more\n1 2 * * * a\n", "# job: n\n1 2 * * * leaderrun run --schedule '1 2 * * *' n -- a\n"},
		{mark + "no more\n1 2 * * * a\n", "1 2 * * * leaderrun run --schedule '1 2 * * *' a -- a\n"},
		{"0 2 * * * " + strings.Repeat("x", 960) + "\n", mark + "the command would have 1004 bytes, and cron takes 998; put it into a script\n0 2 * * * " + strings.Repeat("x", 960) + "\n"},
	} {
		f, _ := one(t, crontab.User, c.before, Options{})
		if diff := cmp.Diff(c.after, string(f.After)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.before, diff)
		}
	}
}

func TestFormats(t *testing.T) {
	f, _ := one(t, crontab.System, "17 * * * *\troot  cd / && a\n", Options{})
	if want := "17 * * * *\troot  leaderrun run --schedule '17 * * * *' a -- sh -c 'cd / && a'\n"; string(f.After) != want {
		t.Errorf("got %s", f.After)
	}
	f, _ = one(t, crontab.Supercronic, "0 */5 * * * * * date +%F\n*/10 * * * * * * x\n0 2 * * * 2030 x\n", Options{})
	want := `0 */5 * * * * * leaderrun run --schedule '*/5 * * * *' date -- date +%F
# leaderrun import: not wrapped: schedules of leaderrun have no seconds; @every 30s is one, for the daemon
*/10 * * * * * * x
# leaderrun import: not wrapped: schedules of leaderrun have no year
0 2 * * * 2030 x
`
	if diff := cmp.Diff(want, string(f.After)); diff != "" {
		t.Error(diff)
	}
	f, _ = one(t, crontab.Supercronic, "0 2 */2 * 1 a\n0 2 2 * 1 b\nCRON_TZ=Asia/Tokyo\nSHELL=/bin/bash\n0 3 * * * d; e\n", Options{})
	want = `# leaderrun import: not wrapped: supercronic takes days that either field names, and leaderrun those that both name; write the range in the place of *, as in 1-31/2
0 2 */2 * 1 a
0 2 2 * 1 leaderrun run --schedule '0 2 2 * 1' --timezone Asia/Tokyo b -- b
CRON_TZ=Asia/Tokyo
SHELL=/bin/bash
0 3 * * * leaderrun run --schedule '0 3 * * *' --timezone Asia/Tokyo d -- /bin/bash -c 'd; e'
`
	if diff := cmp.Diff(want, string(f.After)); diff != "" {
		t.Error(diff)
	}
	f, _ = one(t, crontab.User, "TZ=Asia/Tokyo\n0 2 * * * a\n", Options{Timezone: "Europe/Berlin"})
	if want := "TZ=Asia/Tokyo\n0 2 * * * leaderrun run --schedule '0 2 * * *' --timezone Europe/Berlin a -- a\n"; string(f.After) != want {
		t.Errorf("got %s", f.After)
	}
}

func TestPeel(t *testing.T) {
	for _, c := range []struct{ before, after, note string }{
		{"flock -n /tmp/x a -b", "a -- a -b", ""},
		{"/usr/bin/flock -xn /tmp/x -c 'a | b'", "a -- sh -c 'a | b'", ""},
		{"flock /tmp/x a", "--wait forever a -- a", ""},
		{"flock -w 5 -E 7 /tmp/x a > y", "--wait 5s -E 7 a -- sh -c 'a > y'", ""},
		{"flock --timeout=10 /tmp/x a", "--wait 10s a -- a", ""},
		{"flock -w 0.5 /tmp/x a", "a -- flock -w 0.5 /tmp/x a", `flock stays inside the run: it waits for "0.5"`},
		{"flock -s /tmp/x a", "a -- flock -s /tmp/x a", "flock stays inside the run: leaderrun has nothing that is just -s"},
		{"flock -n 9 a", "a -- flock -n 9 a", "flock stays inside the run: its lock is not a file that is named"},
		{"flock -n /tmp/shared a", "a -- flock -n /tmp/shared a", "flock stays inside the run: its lock file is that of other lines too"},
		{"cd /x && flock -n /tmp/x a", "a -- sh -c 'cd /x && flock -n /tmp/x a'", "flock stays inside the run"},
		{"setlock -nx /tmp/x a", "a -- a", ""},
		{"setlock -n /tmp/x a", "-E 111 a -- a", ""},
		{"setlock /tmp/x a", "--wait forever a -- a", ""},
		{"lockrun --lockfile=/tmp/x -- a", "a -- a", ""},
		{"lockrun -L=/tmp/x -W -- a", "--wait forever a -- a", ""},
		{"lockrun --maxtime=5 -L=/tmp/x -- a", "a -- lockrun --maxtime=5 -L=/tmp/x -- a", "lockrun stays inside the run: leaderrun has nothing that is just --maxtime"},
		{"cronlock a -b", "a -- a -b", ""},
		{"consul lock -try=10s -child-exit-code locks/x a -b", "--wait 10s a -- a -b", ""},
		{"consul lock locks/x 'a && b'", "--wait forever a -- sh -c 'a && b'", ""},
		{"consul lock -n=3 locks/x a", "--slots 3 --wait forever a -- a", ""},
		{"consul lock -timeout 5s -n 3 locks/x a", "--slots 3 --wait 5s a -- a", ""},
		{"consul lock -n=1 locks/x a", "--wait forever a -- a", ""},
		{"consul lock -n=0 locks/x a", "a -- consul lock -n=0 locks/x a", `consul stays inside the run: it lets "0" run at a time`},
		{"consul lock -n=10001 locks/x a", "a -- consul lock -n=10001 locks/x a", `consul stays inside the run: it lets "10001" run at a time`},
		{
			"flock -n /tmp/x consul lock -n=3 locks/x a", "a -- consul lock -n=3 locks/x a",
			"consul stays inside the run: of it and the lock before it, one lets more than one run at a time",
		},
		{
			"consul lock -n=3 locks/x flock -n /tmp/x a", "--slots 3 --wait forever a -- flock -n /tmp/x a",
			"flock stays inside the run: of it and the lock before it, one lets more than one run at a time",
		},
		{"timeout 9s consul lock -n=3 locks/x a", "--timeout 9s a -- consul lock -n=3 locks/x a", "consul stays inside the run: the time that it waits counts for timeout"},
		{"etcdctl --endpoints=e:2379 lock --ttl=20 x a", "--wait forever --ttl 20s a -- a", ""},
		{"etcdctl --endpoints=e:2379 lock x -- a --full", "--wait forever a -- a --full", ""},
		{"etcdctl lock x --ttl=20 -- a -b", "--wait forever --ttl 20s a -- a -b", ""},
		{"etcdctl lock -- x a", "--wait forever a -- a", ""},
		{"etcdctl lock x --", "job -- etcdctl lock x --", "etcdctl stays inside the run: there is no command behind it"},
		{"etcdctl lock --ttl=2 x a", "a -- etcdctl lock --ttl=2 x a", "etcdctl stays inside the run: a lease of leaderrun has 5 s at least"},
		{"timeout 30m a", "--timeout 30m a -- a", ""},
		{"timeout -k 10 30m a", "--timeout 30m --kill-after 10 a -- a", ""},
		{"timeout -s KILL 30m a", "a -- timeout -s KILL 30m a", "timeout stays inside the run: leaderrun has nothing that is just -s"},
		{"timeout 0 a", "a -- timeout 0 a", `timeout stays inside the run: its time is "0"`},
		{"timeout 30m flock -n /tmp/x a", "--timeout 30m a -- a", ""},
		{"timeout 30m flock /tmp/x a", "--timeout 30m a -- flock /tmp/x a", "flock stays inside the run: the time that it waits counts for timeout"},
		{"flock -n /tmp/x timeout 30m nice -n 19 ionice -c3 a", "--timeout 30m a -- nice -n 19 ionice -c3 a", ""},
		{"chronic flock -n /tmp/x a", "a -- chronic a", ""},
		{"runitor -uuid 1-2 -- flock -n /tmp/x a", "a -- runitor -uuid 1-2 -- a", ""},
		{"nice -19 flock -n /tmp/x a", "a -- nice -19 a", ""},
		{"flock -n /tmp/x", "flock -- flock -n /tmp/x", "flock stays inside the run: there is no command behind it"},
		{"flock -w 0 /tmp/x a", "a -- a", ""},
		{"flock -n -w 5 /tmp/x a", "a -- a", ""},
		{"sudo -u x flock -n /tmp/x a", "a -- sudo -u x flock -n /tmp/x a", "flock stays inside the run"},
		{"CRONLOCK_HOST=r cronlock a", "a -- sh -c 'CRONLOCK_HOST=r cronlock a'", "cronlock stays inside the run"},
		{"ETCDCTL_API=3 etcdctl lock x a", "a -- sh -c 'ETCDCTL_API=3 etcdctl lock x a'", "etcdctl lock stays inside the run"},
		{"chronic flock -s /tmp/x a", "a -- chronic flock -s /tmp/x a", "flock stays inside the run: leaderrun has nothing that is just -s"},
	} {
		text := "0 2 * * * " + c.before + "\n"
		if strings.Contains(c.before, "shared") {
			text = "# leaderrun import: x\n" + text + "9 9 * * * flock -n /tmp/shared leaderrun run z -- z\n"
		}
		f, notes := one(t, crontab.User, text, Options{})
		want := "0 2 * * * leaderrun run --schedule '0 2 * * *' " + c.after + "\n"
		if strings.HasPrefix(c.after, "--slots") { // not with a tick
			want = "0 2 * * * leaderrun run " + c.after + "\n"
		}
		if got, _, _ := strings.Cut(string(f.After), "9 9 "); got != want {
			t.Errorf("%s: got %s, want %s", c.before, got, want)
		}
		var told []string
		for _, n := range notes {
			if !n.Info {
				told = append(told, n.Why)
			}
		}
		if strings.Join(told, ", ") != c.note {
			t.Errorf("%s: told %q, want %q", c.before, told, c.note)
		}
	}
}

// A lock file that another line uses too keeps the two apart: however that one takes it.
func TestLocksOfOtherLines(t *testing.T) {
	for other, shared := range map[string]bool{
		"flock -s /tmp/x b":                          true,
		"flock -n -F /tmp/x b":                       true,
		"lockrun --maxtime=5 --lockfile=/tmp/x -- b": true,
		"(flock -n 9 || exit 1; b) 9>/tmp/x":         true,
		"cd / && flock -n '/tmp/x' b":                true,
		"bash -c 'flock -n /tmp/x b'":                true,
		"LOCK=/tmp/x; flock -n $LOCK b":              true,
		"flock -n /tmp/x leaderrun run b -- b":       true,
		"flock -n /tmp/xy b":                         false,
		"flock -n /var/tmp/x b":                      false,
		"flock -n /tmp/x.b b":                        false,
	} {
		f, _ := one(t, crontab.User, "0 2 * * * flock -n /tmp/x a\n0 2 * * * "+other+"\n", Options{})
		if got := strings.Contains(string(f.After), "a -- flock -n /tmp/x a\n"); got != shared {
			t.Errorf("beside %s: %s", other, f.After)
		}
	}
}

func TestDiff(t *testing.T) {
	f, _ := one(t, crontab.User, "#1\n#2\n#3\n#4\n0 2 * * * a\n#6\n#7\n#8\n#9\n#10\n#11\n#12\n@reboot b", Options{})
	want := `--- crontab
+++ crontab
@@ -2,7 +2,7 @@
 #2
 #3
 #4
-0 2 * * * a
+0 2 * * * leaderrun run --schedule '0 2 * * *' a -- a
 #6
 #7
 #8
@@ -10,4 +10,5 @@
 #10
 #11
 #12
-@reboot b
\ No newline at end of file
+# leaderrun import: not wrapped: @reboot is no instant that hosts could share; it runs on each host
+@reboot b
`
	if diff := cmp.Diff(want, f.Diff()); diff != "" {
		t.Error(diff)
	}
}

// The hazard: each job keeps a copy of all variables above it. 16,000 lines took 1.1 GB, and root imports what users wrote.
func TestALongCrontabCostsWhatItsLinesDo(t *testing.T) {
	perLine := func(jobs int) uint64 {
		var text strings.Builder
		for i := range jobs {
			fmt.Fprintf(&text, "V%d=x\n* * * * * /usr/bin/backup %d\n", i, i)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		files, _ := Import([]Source{{Path: "crontab", Text: []byte(text.String())}}, Options{})
		_ = files[0].Diff()
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(jobs) //nolint:gosec // it is positive
	}
	if few, many := perLine(300), perLine(3000); many > 2*few {
		t.Errorf("one of 3,000 lines takes %d bytes, one of 300 takes %d", many, few)
	}
}
