package importer

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/internal/crontab"
)

// one imports a crontab, twice: the second time changes nothing.
func one(t *testing.T, f crontab.Format, text string, o Options) *File {
	t.Helper()
	files, _ := Import([]Source{{Path: "crontab", Text: []byte(text), Format: f}}, o)
	again, _ := Import([]Source{{Path: "crontab", Text: files[0].After, Format: f}}, o)
	if again[0].Changed() {
		t.Errorf("changed when imported again:\n%s", again[0].Diff())
	}
	return files[0]
}

func TestLines(t *testing.T) {
	const mark, twice = "# leaderrun import: not wrapped: ", "2 lines would be the job \"a\"; name each of them: # job: NAME\n"
	for _, c := range []struct{ before, after string }{
		{"", ""},
		{"# x\n\nA=b\n", "# x\n\nA=b\n"},
		{"0 2 * * * report --full\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report --full\n"},
		{"  0\t2 * * *   report 'a b' \n", "  0\t2 * * *   leaderrun run --schedule '0 2 * * *' report -- report 'a b'\n"},
		{"0 2 * * * report \\  \n", "0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report \\ \n"},
		{"@daily report", "@daily leaderrun run --schedule @daily report -- report\n"},
		{"-0 2 * * * report\n", "-0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report\n"},
		{"0 2 * * * cd /x && make it's\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' --shell make -- 'cd /x && make it'\\''s'\n"},
		{"0 2 * * * a >/dev/null 2>&1\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' --shell a -- 'a >/dev/null 2>&1'\n"},
		{"0 2 * * * A=b c\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' --shell c -- 'A=b c'\n"},
		{"0 2 * * * report $(date +\\%F)\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' --shell report -- 'report $(date +\\%F)'\n"},
		{"0 2 * * * report --day=\\%F\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' report -- report --day=\\%F\n"},
		{"0 9 * * 1 mail -s x joe%Hi,%%b\\%ye\n", "0 9 * * 1 leaderrun run --schedule '0 9 * * 1' mail -- mail -s x joe%Hi,%%b\\%ye\n"},
		{"0 9 * * 1 a; b%in\n", "0 9 * * 1 leaderrun run --schedule '0 9 * * 1' --shell a -- 'a; b'%in\n"},
		{"0 9 * * 1 a \\\\ b\n", "0 9 * * 1 leaderrun run --schedule '0 9 * * 1' --shell a -- 'a \\\\ b'\n"},
		{"SHELL=/bin/bash\n0 2 * * * a | b\n", "SHELL=/bin/bash\n0 2 * * * leaderrun run --schedule '0 2 * * *' a -- /bin/bash -c 'a | b'\n"},
		{"SHELL=/usr/bin/fish\n0 2 * * * a | b\n", "SHELL=/usr/bin/fish\n" + mark + "SHELL=/usr/bin/fish may quote in another way than sh; wrap it by hand\n0 2 * * * a | b\n"},
		{"CRON_TZ=Asia/Tokyo\n0 2 * * * a\n", "CRON_TZ=Asia/Tokyo\n0 2 * * * leaderrun run --schedule '0 2 * * *' --timezone Asia/Tokyo a -- a\n"},
		{"CRON_TZ=Nowhere/X\n0 2 * * * a\n", "CRON_TZ=Nowhere/X\n" + mark + "unknown time zone \"Nowhere/X\"; name one of the IANA database, such as Europe/Berlin or UTC\n0 2 * * * a\n"},
		{"TZ=Asia/Tokyo\n0 2 * * * a\n", "TZ=Asia/Tokyo\n" + mark + "TZ is in force here: leaderrun would take it for the zone of the schedule, and cron takes the host's; name that with --timezone\n0 2 * * * a\n"},
		{"@reboot a\n", mark + "@reboot is no instant that hosts could share; it runs on each host\n@reboot a\n"},
		{"17 * * * * cd / && run-parts --report /etc/cron.hourly\n", mark + "run-parts looks after the host itself; it runs on each host\n17 * * * * cd / && run-parts --report /etc/cron.hourly\n"},
		{"0 2 * * * nice /usr/sbin/fstrim -a\n", mark + "fstrim looks after the host itself; it runs on each host\n0 2 * * * nice /usr/sbin/fstrim -a\n"},
		{"0 2 * * * run-parts /srv/night\n", mark + "run-parts looks after the host itself; it runs on each host\n0 2 * * * run-parts /srv/night\n"},
		{"# leaderrun import: leave\n0 2 * * * a\n0 3 * * * b\n", "# leaderrun import: leave\n0 2 * * * a\n0 3 * * * leaderrun run --schedule '0 3 * * *' b -- b\n"},
		{"# leaderrun import: leave\n@reboot a\n", "# leaderrun import: leave\n@reboot a\n"},
		{"5~9 * * * * a\n", mark + "a~b is another time on every host; choose one\n5~9 * * * * a\n"},
		{"0 0 30 2 * a\n", mark + "\"0 0 30 2 *\": day of month: \"30\" does not exist in month \"2\"; name a day that the month has; for its last day let the command look at the date\n0 0 30 2 * a\n"},
		{"* * * * * * a\n", mark + "six fields instead of five; a crontab of supercronic: --from supercronic\n* * * * * * a\n"},
		{"0 2 * * * nohup a &\n", mark + "what & starts would end with the line, or go on without its lease; let it run in the foreground, or `wait` for it\n0 2 * * * nohup a &\n"},
		{"0 2 * * * a & b --mode wait\n", mark + "what & starts would end with the line, or go on without its lease; let it run in the foreground, or `wait` for it\n0 2 * * * a & b --mode wait\n"},
		{"0 2 * * * a & b; (wait)\n", mark + "what & starts would end with the line, or go on without its lease; let it run in the foreground, or `wait` for it\n0 2 * * * a & b; (wait)\n"},
		{"0 2 * * * a & wait; b &\n", mark + "what & starts would end with the line, or go on without its lease; let it run in the foreground, or `wait` for it\n0 2 * * * a & wait; b &\n"},
		{"0 2 * * * a & b; wait $!\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' --shell a -- 'a & b; wait $!'\n"},
		{"0 2 * * * a & b & wait\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' --shell a -- 'a & b & wait'\n"},
		{"0 2 * * * a 2>&1 &>/x && b\n", mark + "what &> (to sh an & and a >) starts would end with the line, or go on without its lease; let it run in the foreground, or `wait` for it\n0 2 * * * a 2>&1 &>/x && b\n"},
		{"SHELL=/bin/bash\n0 2 * * * a 2>&1 &>/x && b\n", "SHELL=/bin/bash\n0 2 * * * leaderrun run --schedule '0 2 * * *' a -- /bin/bash -c 'a 2>&1 &>/x && b'\n"},
		{"0 2 * * *\n", mark + "neither a variable nor a schedule with a command; write minute, hour, day of month, month, day of week and the command\n0 2 * * *\n"},
		{"0 2 * * * a\r\n", mark + "a Windows line end, which cron makes a part of the command; remove it: sed -i 's/\\r$//' FILE\n0 2 * * * a\r\n"},
		{"0 2 * * * %x\n", mark + "there is no command before the %; a plain % is \\%\n0 2 * * * %x\n"},
		{"0 2 * * * \xffa\n", mark + "cron takes no such line: bad day-of-week\n0 2 * * * \xffa\n"},
		{"0 2 * * * leaderrun run x -- y\n", "0 2 * * * leaderrun run x -- y\n"},
		{"0 2 * * * nice leaderrun run a -- y && z\n1 2 * * * a\n", "0 2 * * * nice leaderrun run a -- y && z\n" + mark + twice + "1 2 * * * a\n"},
		{"0 2 * * * a\n1 2 * * * /x/a.sh\n@reboot a\n", mark + twice + "0 2 * * * a\n" + mark + twice + "1 2 * * * /x/a.sh\n" + mark + "@reboot is no instant that hosts could share; it runs on each host\n@reboot a\n"},
		{"0 2 * * * a\n@reboot a\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' a -- a\n" + mark + "@reboot is no instant that hosts could share; it runs on each host\n@reboot a\n"},
		{"0 2 * * * php artisan schedule:run\n1 2 * * * php artisan backup:run\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' artisan-schedule-run -- php artisan schedule:run\n1 2 * * * leaderrun run --schedule '1 2 * * *' artisan-backup-run -- php artisan backup:run\n"},
		{"# job: -x\n0 2 * * * a\n", "# job: -x\n" + mark + "the name in the comment looks like an option; give the job another name\n0 2 * * * a\n"},
		{"0 2 * * * su app -c \"leaderrun run n -- x\"\n", mark + "`leaderrun run` stands inside the command already; the same job within itself would never run\n0 2 * * * su app -c \"leaderrun run n -- x\"\n"},
		{"0 2 * * * bash -l -c 'x &'\n", mark + "what & starts would end with the line, or go on without its lease; let it run in the foreground, or `wait` for it\n0 2 * * * bash -l -c 'x &'\n"},
		{"# job: 100% x\n1 2 * * * a\n", "# job: 100% x\n1 2 * * * leaderrun run --schedule '1 2 * * *' '100\\% x' -- a\n"},
		{"# job: a\\%b\\\\c\n1 2 * * * a\n", "# job: a\\%b\\\\c\n1 2 * * * leaderrun run --schedule '1 2 * * *' 'a\\''\\%b\\''\\c' -- a\n"},
		{
			"# job: a\n0 2 * * * x\n# job: a\n1 2 * * * b\n",
			"# job: a\n" + mark + twice + "0 2 * * * x\n# job: a\n" + mark + twice + "1 2 * * * b\n",
		},
		{"# job: n#3\n0 2 * * * a\n", "# job: n#3\n" + mark + "the name in the comment is that of a slot; give the job another name\n0 2 * * * a\n"},
		{"# job: \xff\n0 2 * * * a\n", "# job: \xff\n" + mark + "the name in the comment is not valid UTF-8; give the job another name\n0 2 * * * a\n"},
		{"0 2 * * * date +%F\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * date +%F\n"},
		{"0 2 * * * date \"+%F\"\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * date \"+%F\"\n"},
		{"0 2 * * * git log --format=%H\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * git log --format=%H\n"},
		{"0 2 * * * curl http://x/a%20b\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * curl http://x/a%20b\n"},
		{"0 2 * * * curl -d @- http://x/a%{}\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' curl -- curl -d @- http://x/a%{}\n"},
		{"0 2 * * * P='a%b' c\n", mark + "cron ends the command at the %; a plain % is \\%\n0 2 * * * P='a%b' c\n"},
		{"0 2 * * * c --of=5%\n", "0 2 * * * leaderrun run --schedule '0 2 * * *' c -- c --of=5%\n"},
		{"# job: n\n" + mark + "no more\n1 2 * * * a\n", "# job: n\n1 2 * * * leaderrun run --schedule '1 2 * * *' n -- a\n"},
		{mark + "no more\n1 2 * * * a\n", "1 2 * * * leaderrun run --schedule '1 2 * * *' a -- a\n"},
		{"0 2 * * * " + strings.Repeat("x", 960) + "\n", mark + "the command would have 1004 bytes, and cron takes 998; put it into a script\n0 2 * * * " + strings.Repeat("x", 960) + "\n"},
	} {
		f := one(t, crontab.User, c.before, Options{})
		if diff := cmp.Diff(c.after, string(f.After)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.before, diff)
		}
	}
}

// What is wrong as it was written is left, and the lines beside it are not.
func TestWhatIsWrittenIsReadBack(t *testing.T) {
	const text = "# x\n@reboot a\n0 2 * * * b\n0 3 * * * c\n"
	check := func(_ string, after []byte, _ crontab.Format) []Wrong {
		if bytes.Contains(after, []byte(" b -- b\n")) {
			return []Wrong{{2, "not of import"}, {4, "refused"}}
		}
		return nil
	}
	const reboot = "# x\n# leaderrun import: not wrapped: @reboot is no instant that hosts could share; it runs on each host\n@reboot a\n"
	want := reboot + "# leaderrun import: not wrapped: what import would write is wrong: refused; wrap it by hand\n0 2 * * * b\n0 3 * * * leaderrun run --schedule '0 3 * * *' c -- c\n"
	if f := one(t, crontab.User, text, Options{Check: check}); string(f.After) != want || f.Wrapped() != 1 {
		t.Errorf("%s", f.After)
	}
}

// A file as its package brought it is each host's, but for the lines that somebody chooses.
func TestFilesOfPackages(t *testing.T) {
	packaged := map[string]bool{"crontab": true}
	only := Choice{"2": false, "4": false, "crontab:9": false}
	files, _ := Import([]Source{{Path: "crontab", Text: []byte("0 2 * * * a\n0 3 * * * b\n")}}, Options{Packaged: packaged})
	if want := "the file is as its package brought it, and so looks after what that has on the host; it runs on each host; a file of your own is wrapped"; files[0].Jobs[0].Why != want || files[0].Wrapped() != 0 {
		t.Errorf("%+v", files[0].Jobs[0])
	}
	files, _ = Import([]Source{{Path: "crontab", Text: []byte("0 2 * * * a\n0 3 * * * b\n# leaderrun import: leave\n0 4 * * * c\n")}}, Options{Packaged: packaged, Only: only})
	if want := "0 2 * * * a\n0 3 * * * leaderrun run --schedule '0 3 * * *' b -- b\n# leaderrun import: leave\n0 4 * * * c\n"; string(files[0].After) != want || !only["2"] || !only["4"] || only["crontab:9"] {
		t.Errorf("%s %v", files[0].After, only)
	}
}

// Where a command may be meant for each host: only what it works on counts.
func TestLook(t *testing.T) {
	for command, want := range map[string]string{
		`a | mail -s "$(hostname)" root`:                    "the host's name stands in it",
		"a --tag=`hostname -s`":                             "the host's name stands in it",
		`a ${HOSTNAME}`:                                     "the host's name stands in it",
		`sync; echo 3 > /proc/sys/vm/drop_caches`:           "it writes to the kernel, which each host has",
		`find /tmp -mtime +3 -delete`:                       "find works on /tmp, which each host has",
		`find -L /srv /etc/x -name y`:                       "find works on /etc/x, which each host has",
		`rm -rf "/tmp/x"/*`:                                 "rm works on /tmp/x/*, which each host has",
		`nice tar czf /backup/etc.tgz /etc`:                 "tar works on /etc, which each host has",
		`bash -c 'rsync -a --exclude /tmp /srv /dev/shm/x'`: "rsync works on /dev/shm/x, which each host has",
		`find /srv -name '*.tmp' -newer /tmp/x -delete`:     "",
		`tar -C / -czf /tmp/x.tgz srv`:                      "",
		`rsync -a --password-file /etc/secret /srv h:/etc`:  "",
		`php cron.php >/dev/null 2>&1`:                      "",
		`cd /tmp && a`:                                      "",
		`test -e /etc/x && a`:                               "",
		`a --config /etc/x.yml --lock /tmp/x`:               "",
		`curl http://localhost/cron`:                        "",
		`a hostname`:                                        "",
		`rm -f /srv/etc/x`:                                  "",
	} {
		j := one(t, crontab.User, "0 2 * * * "+command+"\n", Options{}).Jobs[0]
		if word := map[bool]Word{true: Look, false: Wrapped}[want != ""]; j.Why != want || j.Word != word {
			t.Errorf("%s: %s: %q, want %q", command, j.Word, j.Why, want)
		}
	}
}

// A run in a run of the same name would find its tick taken: whatever text it stands in.
func TestRunsInside(t *testing.T) {
	for script, want := range map[string]bool{
		`su app -c "leaderrun run nightly -- x"`:                              true,
		`su root -s /bin/sh -c "LEADERRUN_BACKEND=x leaderrun run n -- a"`:    true,
		`bash -l -c 'cd /srv && leaderrun run --schedule "0 2 * * *" n -- a'`: true,
		`flock -n /tmp/x -c "/usr/bin/leaderrun run n -- a"`:                  true,
		`consul lock p 'leaderrun run n -- a'`:                                true,
		`ssh host "leaderrun --config /x run n -- a"`:                         true,
		`x "$(leaderrun run n -- a)"`:                                         true,
		"x `leaderrun run n -- a`":                                            true,
		`/opt/leaderrun-1.2 run n -- a`:                                       true,
		`sh -c 'sh -c "leaderrun run n -- a"'`:                                true,
		`leaderrun run n -- a`:                                                false, // it is one already
		`su app -c "leaderrun status"`:                                        false,
		`/opt/leaderrun/report run`:                                           false,
		`my-leaderrun run`:                                                    false,
		`leaderrun status; run x`:                                             false,
	} {
		f := one(t, crontab.User, "0 2 * * * "+script+"\n", Options{})
		if got := len(f.Jobs) == 1 && strings.Contains(f.Jobs[0].Why, "`leaderrun run` stands inside the command"); got != want || want && f.Wrapped() > 0 {
			t.Errorf("%s: %v %s", script, got, f.After)
		}
	}
}

func TestFormats(t *testing.T) {
	f := one(t, crontab.System, "17 * * * *\troot  cd / && a\n", Options{})
	if want := "17 * * * *\troot  leaderrun run --schedule '17 * * * *' --shell a -- 'cd / && a'\n"; string(f.After) != want {
		t.Errorf("got %s", f.After)
	}
	f = one(t, crontab.Supercronic, "0 */5 * * * * * date +%F\n*/10 * * * * * * x\n0 2 * * * 2030 x\n", Options{})
	want := `0 */5 * * * * * leaderrun run --schedule '*/5 * * * *' date -- date +%F
# leaderrun import: not wrapped: schedules of leaderrun have no seconds; @every 30s is one, for the daemon
*/10 * * * * * * x
# leaderrun import: not wrapped: schedules of leaderrun have no year
0 2 * * * 2030 x
`
	if diff := cmp.Diff(want, string(f.After)); diff != "" {
		t.Error(diff)
	}
	f = one(t, crontab.Supercronic, "0 2 */2 * 1 a\n0 2 2 * 1 b\nCRON_TZ=Asia/Tokyo\nSHELL=/bin/bash\n0 3 * * * d; e\n", Options{})
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
	f = one(t, crontab.User, "TZ=Asia/Tokyo\n0 2 * * * a\n", Options{Timezone: "Europe/Berlin"})
	if want := "TZ=Asia/Tokyo\n0 2 * * * leaderrun run --schedule '0 2 * * *' --timezone Europe/Berlin a -- a\n"; string(f.After) != want {
		t.Errorf("got %s", f.After)
	}
}

func TestPeel(t *testing.T) {
	const did, stays = "the run does what flock did", "flock stays inside the run: "
	for _, c := range []struct{ before, after, why string }{
		{"flock -n /tmp/x a -b", "a -- a -b", did},
		{"/usr/bin/flock -xn /tmp/x -c 'a | b'", "--shell a -- 'a | b'", did},
		{"flock -n /tmp/x -c 'a b'", "a-b -- a b", did},
		{"flock -n /tmp/x -c 'a | b' >y", "--shell a -- 'sh -c '\\''a | b'\\'' >y'", did},
		{"flock /tmp/x a", "--wait forever a -- a", did},
		{"flock -w 5 -E 7 /tmp/x a > y", "--wait 5s -E 7 --shell a -- 'a > y'", did},
		{"flock --timeout=10 /tmp/x a", "--wait 10s a -- a", did},
		{"flock -w 0.5 /tmp/x a", "a -- flock -w 0.5 /tmp/x a", stays + "it waits for 0.5"},
		{"flock -s /tmp/x a", "a -- flock -s /tmp/x a", stays + "a run has nothing that is just -s"},
		{"flock -n 9 a", "a -- flock -n 9 a", stays + "its lock is not a file that is named"},
		{"flock -n /tmp/x", "flock -- flock -n /tmp/x", stays + "there is no command behind it"},
		{"flock -w 0 /tmp/x a", "a -- a", did},
		{"flock -n -w 5 /tmp/x a", "a -- a", did},
		{"cd /x && flock -n /tmp/x a", "--shell a -- 'cd /x && flock -n /tmp/x a'", stays + "other programs may use its lock"},
		{"flock -n /tmp/x a; b", "--shell a -- 'flock -n /tmp/x a; b'", stays + "other programs may use its lock"},
		{"sudo -u x flock -n /tmp/x a", "a -- sudo -u x flock -n /tmp/x a", stays + "other programs may use its lock"},
		{"bash -c 'flock -n /tmp/x a'", "a -- bash -c 'flock -n /tmp/x a'", stays + "other programs may use its lock"},
		{"setlock -nx /tmp/x a", "a -- a", "the run does what setlock did"},
		{"setlock -n /tmp/x a", "-E 111 a -- a", "the run does what setlock did"},
		{"setlock /tmp/x a", "--wait forever a -- a", "the run does what setlock did"},
		{"lockrun --lockfile=/tmp/x -- a", "a -- lockrun --lockfile=/tmp/x -- a", "lockrun stays inside the run: other programs may use its lock"},
		{"cronlock a -b", "a -- cronlock a -b", "cronlock stays inside the run: other programs may use its lock"},
		{"CRONLOCK_KEY=r cronlock a", "--shell a -- 'CRONLOCK_KEY=r cronlock a'", "cronlock stays inside the run: other programs may use its lock"},
		{"consul lock -try=10s locks/x a -b", "a -- consul lock -try=10s locks/x a -b", "consul lock stays inside the run: other programs may use its lock"},
		{"etcdctl lock --ttl=20 x a", "a -- etcdctl lock --ttl=20 x a", "etcdctl lock stays inside the run: other programs may use its lock"},
		{"timeout 30m a", "--timeout 30m a -- a", "the run does what timeout did"},
		{"timeout -k 10 30m a", "--timeout 30m --kill-after 10 a -- a", "the run does what timeout did"},
		{"timeout -s KILL 30m a", "a -- timeout -s KILL 30m a", ""},
		{"timeout 0 a", "a -- timeout 0 a", ""},
		{"timeout 30m flock -n /tmp/x a", "--timeout 30m a -- a", "the run does what timeout did; " + did},
		{"timeout 30m flock /tmp/x a", "--timeout 30m a -- flock /tmp/x a", "the run does what timeout did; " + stays + "the time that it waits counts for timeout"},
		{"flock -n /tmp/x timeout 30m nice -n 19 a", "--timeout 30m a -- nice -n 19 a", did + "; the run does what timeout did"},
		{"flock -n /tmp/x flock -w 5 /tmp/y a", "a -- flock -w 5 /tmp/y a", did + "; " + stays + "the run does what another did"},
		{"timeout 3m timeout 5m a", "--timeout 3m a -- timeout 5m a", "the run does what timeout did"},
		{"nice -19 chronic a", "a -- nice -19 chronic a", ""},
	} {
		f := one(t, crontab.User, "0 2 * * * "+c.before+"\n", Options{})
		if want := "0 2 * * * leaderrun run --schedule '0 2 * * *' " + c.after + "\n"; string(f.After) != want {
			t.Errorf("%s: got %s, want %s", c.before, f.After, want)
		}
		word := Wrapped
		if strings.Contains(c.why, "stays") {
			word = Look
		}
		if j := f.Jobs[0]; j.Why != c.why || j.Word != word {
			t.Errorf("%s: %s: %q, want %q", c.before, j.Word, j.Why, c.why)
		}
	}
}

// A lock file that another line names, too, in whatever way and spelling, keeps the two apart.
func TestLocksOfOtherLines(t *testing.T) {
	for other, shared := range map[string]bool{
		"0 2 * * * flock -s /tmp/x b":                           true,
		"0 2 * * * (flock -n 9 || exit 1; b) 9>/tmp/x":          true,
		"0 2 * * * cd /tmp && flock -n x b":                     true,
		"0 2 * * * flock -n /tmp/../tmp/x b":                    true,
		"0 2 * * * flock -n /var/tmp/'x' b":                     true,
		"0 2 * * * bash -c 'flock -n /tmp/x b'":                 true,
		"LOCK=/tmp/x":                                           true,
		"0 2 * * * flock -n /tmp/x leaderrun run b -- b":        true,
		"@reboot flock -n /tmp/x b":                             true,
		"0 2 * * * flock -n /tmp/xy b":                          false,
		"0 2 * * * flock -n /tmp/x.b b":                         false,
		"# flock -n /tmp/x b":                                   false,
		"0 2 * * * flock -n /tmp/y leaderrun run b -- xx \\%x.": false,
	} {
		files, _ := Import([]Source{{Path: "a", Text: []byte("0 2 * * * flock -n /tmp/x a\n")}, {Path: "b", Text: []byte(other + "\n")}}, Options{})
		if got := strings.Contains(string(files[0].After), "a -- flock -n /tmp/x a\n"); got != shared {
			t.Errorf("beside %s: %s", other, files[0].After)
		}
	}
	for _, spelling := range []string{`/tmp/d"b".lock`, `'/tmp/d'b.lock`, `/tmp/d\b.lock`, `/tmp/db.lock/.`} {
		f := one(t, crontab.User, "0 2 * * * flock -n /tmp/db.lock a\n0 2 * * * flock -n "+spelling+" b\n", Options{})
		if f.Jobs[0].Word != Look || f.Jobs[1].Word != Look {
			t.Errorf("%s: %s", spelling, f.After)
		}
	}
}

func TestDiff(t *testing.T) {
	f := one(t, crontab.User, "#1\n#2\n#3\n#4\n0 2 * * * a\n#6\n#7\n#8\n#9\n#10\n#11\n#12\n@reboot b", Options{})
	want := `--- crontab
+++ crontab
@@ -5 +5 @@
-0 2 * * * a
+0 2 * * * leaderrun run --schedule '0 2 * * *' a -- a
@@ -13 +13,2 @@
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
