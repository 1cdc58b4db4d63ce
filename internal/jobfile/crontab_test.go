package jobfile

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCrontab(t *testing.T) {
	file := accepted(t, "/etc/jobs", `# backups
SHELL=/bin/bash
CRON_TZ = Europe/Berlin

# job: nightly report
0 2 * * *	report --full  
#job:  feed
  @hourly feed 100\%%line%line
RANDOM_DELAY=15
PATH=/opt/bin:/usr/bin
HOME="/srv/app"
MAILTO=""
# job: ✓ spread
30 4 * * mon-fri spread
RANDOM_DELAY=0
CRON_TZ=Asia/Tokyo
# job: often
@every 90s often`)

	type row struct {
		Name, Place, Schedule string
		Argv                  []string
		Stdin, Dir            string
		Env                   []string
		Jitter                time.Duration
	}
	berlin := []string{"CRON_TZ=Europe/Berlin", "SHELL=/bin/bash"}
	set := []string{"CRON_TZ=Europe/Berlin", "HOME=/srv/app", "MAILTO=", "PATH=/opt/bin:/usr/bin", "RANDOM_DELAY=15", "SHELL=/bin/bash"}
	want := []row{
		{
			"nightly report", "/etc/jobs:6", "0 2 * * * (Europe/Berlin)",
			[]string{"/bin/bash", "-c", "report --full  "},
			"", "/home/me", berlin, 0,
		},
		{"feed", "/etc/jobs:8", "@hourly (Europe/Berlin)", []string{"/bin/bash", "-c", "feed 100%"}, "line\nline\n", "/home/me", berlin, 0},
		{"✓ spread", "/etc/jobs:14", "30 4 * * mon-fri (Europe/Berlin)", []string{"/bin/bash", "-c", "spread"}, "", "/srv/app", set, 15 * time.Minute},
		{
			"often", "/etc/jobs:18", "@every 1m30s (Asia/Tokyo)",
			[]string{"/bin/bash", "-c", "often"},
			"", "/srv/app",
			[]string{"CRON_TZ=Asia/Tokyo", "HOME=/srv/app", "MAILTO=", "PATH=/opt/bin:/usr/bin", "RANDOM_DELAY=0", "SHELL=/bin/bash"},
			0,
		},
	}
	var got []row
	for _, j := range file.Jobs {
		got = append(got, row{j.Name, j.Place, j.Schedule.String(), j.Argv, j.Stdin, j.Dir, j.variables(), j.Jitter})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if len(file.Warnings) > 0 {
		t.Errorf("warnings: %v", file.Warnings)
	}
}

// cron sets SHELL, and programs look at it: that of the person who started the daemon is another.
func TestCrontabHasAShell(t *testing.T) {
	job := accepted(t, "jobs", "# job: j\n@daily run-it\n").Jobs[0]
	if want := []string{"/bin/sh", "-c", "run-it"}; !slices.Equal(job.Argv, want) {
		t.Errorf("argv: got %q, want %q", job.Argv, want)
	}
	if want := []string{"SHELL=/bin/sh"}; !slices.Equal(job.Env, want) {
		t.Errorf("env: got %q, want %q", job.Env, want)
	}
}

func TestCrontabRefused(t *testing.T) {
	const sixFields = ": six fields instead of five: there is no field for seconds; @every 30s is a schedule"
	for _, c := range []struct {
		what, text string
		want       []string
	}{
		{"empty", "", []string{"jobs: there is no job in it: write one like: 0 2 * * * COMMAND, below a comment # job: NAME"}},
		{"only variables", "PATH=/bin\n# x\n", []string{"jobs: there is no job in it: write one like: 0 2 * * * COMMAND, below a comment # job: NAME"}},
		{
			"a name, and a comment between", "# job: c\n# why\n0 2 * * * x\n",
			[]string{"jobs:3: is the name in line 1 meant for this job? it does not stand right above: move it down, or put an empty line between"},
		},
		{
			"a run inside, of the name of a job of the daemon",
			"0 2 * * * leaderrun run nightly -- report\n# job: feed\n0 3 * * * nice leaderrun run feed feeder\n" +
				"0 4 * * * su app -c \"bash -lc 'leaderrun run --every 1h weekly -- report'\"\n0 5 * * * flock -n /x -c 'leaderrun run feed x'\n",
			[]string{
				"jobs:1: nightly: `leaderrun run` inside has the name of a job of this daemon, which has its lease: write the command alone; what it is called stands in a comment above: # job: nightly",
				"jobs:3: feed: `leaderrun run` inside has the name of a job of this daemon, which has its lease: write the command alone; what it is called stands in a comment above: # job: feed",
				"jobs:4: weekly: `leaderrun run` inside has the name of a job of this daemon, which has its lease: write the command alone; what it is called stands in a comment above: # job: weekly",
				"jobs:5: feed-2: `leaderrun run` inside has the name of a job of this daemon, which has its lease: write the command alone; what it is called stands in a comment above: # job: feed",
			},
		},
		{
			"a name twice", "# job: a\n0 2 * * * x\n# job: a\n0 3 * * * x\n",
			[]string{"jobs:4: a: two jobs of this name; the first is in line 2: rename one of them"},
		},
		{"an empty name", "# job:\n0 2 * * * x\n", []string{"jobs:2: the name of the job is empty"}},
		{"a name that is not UTF-8", "# job: \xff\n0 2 * * * x\n", []string{"jobs:2: the name of the job is not valid UTF-8"}},
		{
			"all that is wrong with a line, and more lines", "0 25 * * * x\n# job: b\n0 2 30 2 * x\n",
			[]string{
				`jobs:1: x: schedule: "0 25 * * *": hour: "25" is out of range: use 0-23`,
				`jobs:3: b: schedule: "0 2 30 2 *": day of month: "30" does not exist in month "2": name a day that the month has; for its last day let the command look at the date`,
			},
		},
		{"@reboot", "# job: a\n@reboot x\n", []string{`jobs:2: a: schedule: "@reboot": @reboot is no instant: let systemd or cron start the job at boot, without a schedule`}},
		{"seconds", "# job: a\n0 0 2 * * * x\n", []string{"jobs:2: a" + sixFields}},
		{"seconds and weekdays", "# job: a\n0 0 2 * * MON-fri x\n", []string{"jobs:2: a" + sixFields}},
		{
			"no command", "# job: a\n0 2 * * *\n# job: b\n@daily \n",
			[]string{
				"jobs:2: a: neither a variable nor a schedule with a command: write minute, hour, day of month, month, day of week and the command",
				"jobs:4: b: neither a variable nor a schedule with a command: write minute, hour, day of month, month, day of week and the command",
			},
		},
		{"only stdin", "# job: a\n@daily %x\n", []string{`jobs:2: a: there is no command before the %: what follows the first % is what the command reads; a plain one is \%`}},
		{"export", "export A=b\n", []string{"jobs:1: neither a variable nor a schedule with a command: a variable is NAME=value, without export"}},
		{"quotes", "A=\"b\" c\n", []string{`jobs:1: A: there is text after the closing quote: quotes hold the whole value or none of it: NAME="a value"`}},
		{"odd names", "F-O=1\n=2\n", []string{`jobs:1: "F-O" is not the name of a variable: remove the line`, `jobs:2: "" is not the name of a variable: remove the line`}},
		{
			"variables of others", "LEADERRUN_TOKEN=1\nNOTIFY_SOCKET=x\nWATCHDOG_USEC=1\n",
			[]string{
				"jobs:1: LEADERRUN_TOKEN is leaderrun's own: remove the line",
				"jobs:2: NOTIFY_SOCKET is between systemd and leaderrun: remove the line",
				"jobs:3: WATCHDOG_USEC is between systemd and leaderrun: remove the line",
			},
		},
		{
			"a variable that no program can be given", "A=" + strings.Repeat("x", 128<<10-3) + "\nB=" + strings.Repeat("x", 128<<10-2) + "\n",
			[]string{"jobs:2: B has 131070 bytes: with its name, a variable can have 131071: remove the line"},
		},
		{"SHELL, HOME", "SHELL=bash\nHOME=\n", []string{`jobs:1: SHELL: "bash" is not an absolute path: write SHELL=/bin/bash`, `jobs:2: HOME: "" is not an absolute path: commands start there`}},
		{"a zone", "CRON_TZ=Mars/Base\n", []string{`jobs:1: CRON_TZ: unknown time zone "Mars/Base": name one of the IANA database, such as Europe/Berlin or UTC`}},
		{"a zone before the minute", "CRON_TZ=UTC 0 2 * * * x\n", []string{"jobs:1: CRON_TZ: there is more than a zone in the line: write CRON_TZ=ZONE in a line of its own, above those that it is for"}},
		{"a delay", "RANDOM_DELAY=5m\n", []string{`jobs:1: RANDOM_DELAY: "5m" is not a number of minutes: write RANDOM_DELAY=15`}},
		{
			"a delay past the next tick", "RANDOM_DELAY=30\n# job: a\n*/30 * * * * x\n",
			[]string{"jobs:3: a: jitter: 30m0s is not shorter than the 30m0s between two ticks: write RANDOM_DELAY=0 above the line"},
		},
		{"Windows", "# job: a\r\n0 2 * * * x\r\n", []string{`jobs:1: the file has Windows line ends: remove them: sed -i 's/\r$//' jobs`}},
		{"a mark", "\ufeff# job: a\n0 2 * * * x\n", []string{"jobs:1: the file begins with a byte order mark: save it without one"}},
		{"YAML", "# x\njobs:\n  a: {}\n", []string{"jobs:2: this looks like YAML, and the file is read as a crontab: a YAML file's name ends in .yaml or .yml"}},
		{"a zero byte", "# job: a\n0 2 * * * x\x00\n", []string{"jobs:2: there is a zero byte in it: a job file is plain text"}},
		{
			"a user's column", "# job: a\n0 2 * * * root report\n",
			[]string{"jobs:2: a: the sixth word, root, is a user of this host: remove the column, or let a daemon of root's with --system run the file"},
		},
	} {
		t.Run(c.what, func(t *testing.T) { refused(t, "jobs", c.text, c.want) })
	}
}

// cron reads some files with a user's column, also where this host does not have that user.
func TestSystemCrontab(t *testing.T) {
	for _, path := range []string{"/etc/crontab", "/etc/cron.d/report"} {
		refused(t, path, "# job: a\n0 2 * * * nobody-here report\n", []string{
			path + ":2: a: the sixth word, nobody-here, is the user of a system crontab: remove the column, or let a daemon of root's with --system run the file",
		})
		accepted(t, path, "# job: a\n0 2 * * * /usr/bin/report now\n")
	}
}

// Many users are called like programs: games, mail, sync. A command must not be taken for one of them.
func TestUserOrProgram(t *testing.T) {
	for _, c := range []struct {
		text   string
		unsure bool
	}{
		{"# job: a\n0 2 * * * root\n", false},              // no more words: not a column
		{"# job: a\n0 2 * * * mail -s hello joe\n", false}, // no command begins with -
		{"# job: a\n0 2 * * * /bin/root x\n", false},       //
		{"# job: a\n0 2 * * * strangers command\n", false}, // nobody here
		{"# job: a\n@daily sync now\n", true},              // a program, too
	} {
		file := accepted(t, "jobs", c.text)
		if !c.unsure {
			checkWarnings(t, file)
		} else {
			checkWarnings(t, file, "jobs:2: a: the sixth word, sync, is taken for the command, and is also a user of this host: "+
				"if it is a user's column: remove the column, or let a daemon of root's with --system run the file")
		}
	}
	refused(t, "jobs", "PATH=/nowhere\n# job: a\n@daily sync now\n", []string{
		"jobs:3: a: the sixth word, sync, is a user of this host: remove the column, or let a daemon of root's with --system run the file",
	})
}

func TestCrontabWarnings(t *testing.T) {
	file := accepted(t, "jobs", `MAILTO=me@example.com
LOGNAME=joe
# job: was commented out
#0 2 * * * x
# job: nothing

# job: twice
@daily cd /srv && /usr/local/bin/leaderrun run --ttl 5s x y
# job: asks
@daily leaderrun status
# job: quoted
@daily su - app -c "leaderrun run x y"
# job: last`)
	checkWarnings(t, file,
		"jobs:1: MAILTO: no mail is sent: the output of the jobs is the daemon's: remove the line",
		"jobs:2: LOGNAME: cron does not let a crontab set it, and it is ignored here too: remove the line",
		`jobs:5: the name "nothing" has no job: its line must follow at once`,
		"jobs:8: twice: `leaderrun run` inside a job takes a second lease: write the command alone",
		"jobs:12: quoted: `leaderrun run` inside a job takes a second lease: write the command alone",
		`jobs:13: the name "last" has no job: its line must follow at once`)
	if want := []string{"MAILTO=me@example.com", "SHELL=/bin/sh"}; !slices.Equal(file.Jobs[0].variables(), want) {
		t.Errorf("the command has %q, want %q", file.Jobs[0].variables(), want)
	}
}

// A job that nobody has named is called as import would call it: names that are written come first, and what could be a password
// is no part of one.
func TestDerivedNames(t *testing.T) {
	file := accepted(t, "jobs", `0 1 * * * /usr/bin/backup --all
# job: backup-2
0 2 * * * other
0 3 * * * backup --some
0 4 * * * cd /srv && mysqldump --password=hunter2 -phunter2 db
0 5 * * * TOKEN=hunter2 curl -H "Authorization: hunter2" https://user:hunter2@example.com/hunter2
`)
	var names []string
	for _, j := range file.Jobs {
		names = append(names, j.Name)
		if strings.Contains(j.Name, "hunter2") {
			t.Errorf("%q shows a password", j.Name)
		}
	}
	if want := []string{"backup", "backup-2", "backup-3", "mysqldump", "curl"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// The hazard: each job keeps a copy of all variables above it, and a name that many want is searched for from its beginning. A crontab
// of 114 kB took 1.2 GB.
func TestALongCrontabCostsWhatItsLinesDo(t *testing.T) {
	perJob := func(jobs int) uint64 {
		var text strings.Builder
		for i := range jobs {
			fmt.Fprintf(&text, "V%d=x\n* * * * * /usr/bin/backup\n", i)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		accepted(t, "jobs", text.String())
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(jobs) //nolint:gosec // it is positive
	}
	if few, many := perJob(300), perJob(3000); many > 2*few {
		t.Errorf("one of 3,000 jobs takes %d bytes, one of 300 takes %d", many, few)
	}
}
