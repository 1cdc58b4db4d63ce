package importer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// host makes directories of units, and files in them. What begins with -> is a link.
func host(t *testing.T, files map[string]string) unitPath {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var dirs unitPath
	for _, dir := range []string{"etc", "run", "local", "usr"} {
		dirs = append(dirs, filepath.Join(root, dir))
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if target, ok := strings.CutPrefix(text, "->"); ok && err == nil {
			err = os.Symlink(strings.Replace(target, "ROOT", root, 1), path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

// TestOverriddenUnits: what is imported is what systemd runs, and not what the package brought.
func TestOverriddenUnits(t *testing.T) {
	timer := func(spec string) string { return "[Timer]\nOnCalendar=\nOnCalendar=" + spec + "\n" }
	service := func(command string) string { return "[Service]\nExecStart=\nExecStart=" + command + "\n" }
	for name, c := range map[string]struct {
		files      map[string]string
		asked      string
		name, line string // of the job
		refused    string
	}{
		"the service is overridden, the timer is not": {
			map[string]string{"usr/a.timer": timer("*:00"), "usr/a.service": service("/old"), "etc/a.service": service("/new")},
			"a", "a", "0 * * * * /new", "",
		},
		"the timer is overridden, the service is not": {
			map[string]string{"usr/a.timer": timer("*:00"), "local/a.timer": timer("*:30"), "usr/a.service": service("/old")},
			"a", "a", "30 * * * * /old", "",
		},
		"a path in a directory of systemd is what it runs": {
			map[string]string{"usr/a.timer": timer("*:00"), "etc/a.timer": timer("*:30"), "usr/a.service": service("/old"), "run/a.service": service("/new")},
			"usr/a.timer", "a", "30 * * * * /new", "",
		},
		"the last drop-in by file name, wherever it is": {
			map[string]string{
				"usr/a.timer": timer("*:00"), "etc/a.timer.d/10.conf": timer("*:10"), "usr/a.timer.d/20.conf": timer("*:20"), "usr/a.service": service("/old"),
			},
			"a", "a", "20 * * * * /old", "",
		},
		"of two drop-ins of one name that of /etc": {
			map[string]string{
				"usr/a.timer": timer("*:00"), "etc/a.timer.d/x.conf": timer("*:10"), "usr/a.timer.d/x.conf": timer("*:20"), "usr/a.service": service("/old"),
			},
			"a", "a", "10 * * * * /old", "",
		},
		"a drop-in that is masked": {
			map[string]string{"usr/a.timer": timer("*:00"), "etc/a.timer.d/x.conf": "->/dev/null", "usr/a.timer.d/x.conf": timer("*:20"), "usr/a.service": service("/old")},
			"a", "a", "0 * * * * /old", "",
		},
		"drop-ins of a prefix and of all timers": {
			map[string]string{
				"usr/a-b.timer": timer("*:00"), "etc/timer.d/x.conf": timer("*:10"), "usr/a-.timer.d/x.conf": timer("*:20"), "usr/a-b.service": service("/old"),
				"run/a-.service.d/x.conf": service("/new"),
			},
			"a-b", "a-b", "20 * * * * /new", "",
		},
		"an instance": {
			map[string]string{"usr/a@.timer": timer("*:00"), "etc/a@x.timer.d/x.conf": timer("*:10"), "usr/a@.service": service("/old"), "usr/a@x.service": service("/x")},
			"a@x", "a@x", "10 * * * * /x", "",
		},
		"an alias": {
			map[string]string{"usr/a.timer": timer("*:00"), "etc/b.timer": "->ROOT/usr/a.timer", "usr/a.service": service("/old")},
			"b", "a", "0 * * * * /old", "",
		},
		"a file that lies somewhere else": {
			map[string]string{"opt/a.timer": timer("*:00"), "etc/b.timer": "->ROOT/opt/a.timer", "usr/b.service": service("/old")},
			"b", "b", "0 * * * * /old", "",
		},
		"a timer that is masked": {
			map[string]string{"usr/a.timer": timer("*:00"), "etc/a.timer": "->/dev/null", "usr/a.service": service("/old")},
			"a", "", "", "it is masked",
		},
		"a service that is masked": {
			map[string]string{"usr/a.timer": timer("*:00"), "etc/a.service": "", "usr/a.service": service("/old")},
			"a", "", "", "its service a.service is masked",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := host(t, c.files)
			if strings.Contains(c.asked, "/") {
				c.asked = filepath.Join(filepath.Dir(p[0]), c.asked)
			}
			units, err := p.findUnits(c.asked)
			if err != nil {
				t.Fatal(err)
			}
			job, why := ofTimer(units[0], units)
			if c.refused != "" {
				if !strings.Contains(why, c.refused) {
					t.Errorf("refused with %q", why)
				}
				return
			}
			if why != "" {
				t.Fatal(why)
			}
			job.Name = "j"
			text := Lines([]*Job{job}, Options{})
			want := regexp.MustCompile("^# job: j\n" + regexp.QuoteMeta(strings.Join(strings.Fields(c.line)[:5], " ")) + " .* " + regexp.QuoteMeta(strings.Fields(c.line)[5]) + "\n$")
			if units[0].name != c.name+".timer" || !want.MatchString(text) {
				t.Errorf("%s: %q", units[0].name, text)
			}
		})
	}
}

// TestDropInsAsSystemdHasThem: systemd itself says which drop-ins it reads of many, and in which order.
func TestDropInsAsSystemdHasThem(t *testing.T) {
	servers.SkipShort(t)
	servers.Require(t, "systemd")
	names := []string{"a-b-c.timer", "a-b-.timer", "a-.timer", "timer", "a-b-c@.timer", "a-b-c@i.timer", "a-b-@i.timer", "a-b-@.timer", "b-.timer"}
	told := regexp.MustCompile(`(?m)^(\S+\.conf):1: `)
	for _, name := range []string{"a-b-c.timer", "a-b-c@i.timer"} {
		for range 8 {
			files := map[string]string{"usr/a-b-c.timer": "[Timer]\n", "usr/a-b-c.service": "[Service]\n", "usr/a-b-c@.timer": "[Timer]\n", "usr/a-b-c@.service": "[Service]\n"}
			for range 12 {
				dir, file := []string{"etc", "run", "local", "usr"}[rand.IntN(4)], []string{"10.conf", "9.conf", "x.conf", "B.conf"}[rand.IntN(4)]
				files[dir+"/"+names[rand.IntN(len(names))]+".d/"+file] = "nonsense\n"
			}
			p := host(t, files)
			cmd := exec.Command("systemd-analyze", "verify", "--man=no", name)
			cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+strings.Join(p, ":"))
			out, _ := cmd.CombinedOutput() // it misses what a whole system has
			var want, got []string
			for _, m := range told.FindAllStringSubmatch(string(out), -1) {
				want = append(want, m[1])
			}
			u := &unit{}
			for path, text := range files { // each says who it is
				if text == "nonsense\n" {
					full := filepath.Join(filepath.Dir(p[0]), path)
					if err := os.WriteFile(full, fmt.Appendf(nil, "Read=%s\n", full), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := p.extend(u, []string{name}); err != nil {
				t.Fatal(err)
			}
			got = u.all("Read")
			if !slices.Equal(got, want) {
				t.Errorf("%s: systemd reads\n%s\nand this\n%s", name, strings.Join(want, "\n"), strings.Join(got, "\n"))
			}
		}
	}
}
