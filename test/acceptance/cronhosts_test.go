package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
)

// cronHosts are the machines that run the daemon with one job file.
var cronHosts = []string{"a", "b", "c"}

// cronPort is where each shows itself, on its own loopback interface.
const cronPort = "9465"

// farm is some machines in a network with one job file, each with its daemon.
type farm struct {
	*hosts.Network
	t       *testing.T
	dir     string
	file    string
	backend string
	started []*wrapper // all daemons there were
}

func newFarm(t *testing.T, n *hosts.Network, backend string) *farm {
	t.Helper()
	dir := servers.Dir(t)
	f := &farm{Network: n, t: t, dir: dir, file: filepath.Join(dir, "jobs.yaml"), backend: backend}
	t.Cleanup(func() {
		for _, host := range cronHosts {
			f.Dies(host)
		}
	})
	return f
}

// write replaces the job file in one step: a daemon that reads it sees all or nothing.
func (f *farm) write(text string) {
	f.t.Helper()
	err := os.WriteFile(f.file+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(f.file+".new", f.file)
	}
	if err != nil {
		f.t.Error(err)
	}
}

// log is the file that a job's command writes to, whichever host it runs on.
func (f *farm) log(job string) string { return filepath.Join(f.dir, job+".log") }

// start starts the daemon of a host. Its commands find the host's name in HOST.
func (f *farm) start(host string) *wrapper {
	f.t.Helper()
	w := launch(f.t, append(f.Where(host), "env", "HOST="+host, binary, "--log-level", "info", "--log-format", "json",
		"cron", "--backend", f.backend, "--listen", "127.0.0.1:"+cronPort, f.file)...)
	f.started = append(f.started, w)
	return w
}

// get asks the daemon of a host for a page. 0: no answer.
func (f *farm) get(host, page string) (code int) {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := execOutput(append(f.Where(host), self, roleFetch, "http://127.0.0.1:"+cronPort+page)...)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := fmt.Sscan(text, &code); err != nil {
		f.t.Fatalf("%q: %v", text, err)
	}
	return code
}

// fetch is the role of the test binary that looks at a page from another network.
func fetch(url string) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		fmt.Println(0)
		return
	}
	_ = response.Body.Close()
	fmt.Println(response.StatusCode)
}

// shows waits until a page of a host has a code.
func (f *farm) shows(host, page string, code int) {
	f.t.Helper()
	servers.Eventually(f.t, fmt.Sprintf("%s of %s is %d", page, host, code), func() bool { return f.get(host, page) == code })
}

// everybodyShows waits until a page has a code on every host.
func (f *farm) everybodyShows(page string, code int) {
	f.t.Helper()
	for _, host := range cronHosts {
		f.shows(host, page, code)
	}
}

// runsOn waits until a job runs, and returns on which of the daemons.
func (f *farm) runsOn(job string, daemons map[string]*wrapper) (host string) {
	f.t.Helper()
	return runsOn(f.t, append(f.Where("s"), binary, "status", "--json", "--backend", f.backend), job, daemons)
}

// runsOn waits until a job runs by what status says, and returns on which of the daemons.
func runsOn(t *testing.T, status []string, job string, daemons map[string]*wrapper) (host string) {
	t.Helper()
	servers.Eventually(t, job+" runs", func() bool {
		text, err := execOutput(status...)
		var all []struct {
			Job string
			PID int
		}
		if err != nil || json.Unmarshal([]byte(text), &all) != nil {
			return false
		}
		for _, j := range all {
			for name, w := range daemons {
				if j.Job == job && j.PID == w.pid() {
					host = name
				}
			}
		}
		return host != ""
	})
	return host
}

// startsOf returns how many runs each host has started, as the command wrote it down.
func (f *farm) startsOf(job string) map[string]int {
	text, _ := os.ReadFile(f.log(job))
	n := map[string]int{}
	for host := range strings.FieldsSeq(string(text)) {
		n[host]++
	}
	return n
}

// A daemon that cannot reach the backend is alive and not ready, and ready again when it can. The others go on with the
// jobs meanwhile.
func TestCronIsReadyWhileTheBackendIs(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	n, backend, server := networkWithRedis(t, cronHosts...)
	f := newFarm(t, n, backend)
	f.write(fmt.Sprintf("defaults: {ttl: 5s}\njobs:\n  job:\n    every: 1s\n    shell: echo $HOST >>%s\n", f.log("job")))
	for _, host := range cronHosts {
		f.start(host)
	}
	f.everybodyShows("/readyz", http.StatusOK)

	f.Cut("a", "s")
	f.shows("a", "/readyz", http.StatusServiceUnavailable)
	for page, hosts := range map[string][]string{"/healthz": cronHosts, "/readyz": cronHosts[1:]} {
		for _, host := range hosts {
			f.shows(host, page, http.StatusOK) // while a is cut off
		}
	}
	before := f.startsOf("job")
	servers.Eventually(t, "the others run the job", func() bool {
		now := f.startsOf("job")
		return now["b"]+now["c"] > before["b"]+before["c"]+1
	})
	f.Heal("a")
	f.shows("a", "/readyz", http.StatusOK)

	server.Stop(t)
	f.everybodyShows("/readyz", http.StatusServiceUnavailable)
	if code := f.get("b", "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d while the backend is silent", code)
	}
	server.Cont(t)
	f.everybodyShows("/readyz", http.StatusOK)
	before = f.startsOf("job")
	servers.Eventually(t, "the job runs again", func() bool {
		now := f.startsOf("job")
		return now["a"]+now["b"]+now["c"] > before["a"]+before["b"]+before["c"]
	})
}

// SIGTERM lets the command that runs end by itself and starts nothing any more: the other hosts do. The daemon is alive
// until then, not ready, and ends with 0.
func TestCronDrains(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	n, backend, _ := networkWithRedis(t, cronHosts...)
	f := newFarm(t, n, backend)
	mark := filepath.Join(f.dir, "mark")
	f.write(fmt.Sprintf(`defaults: {ttl: 5s}
jobs:
  short:
    every: 1s
    shell: echo $HOST >>%s
  long:
    every: 1s
    shell: test -e %[2]s.over && exit; trap 'echo >%[2]s.termed' TERM; echo >%[2]s; while test -e %[2]s; do sleep 0.01; done; echo >%[2]s.over
`, f.log("short"), mark))
	daemons := map[string]*wrapper{}
	for _, host := range cronHosts {
		daemons[host] = f.start(host)
	}
	f.everybodyShows("/healthz", http.StatusOK) // signals find them
	waitForFile(t, mark)
	host := f.runsOn("long", daemons)
	w := daemons[host]
	w.signal(syscall.SIGTERM)
	f.shows(host, "/readyz", http.StatusServiceUnavailable)
	servers.Eventually(t, "what "+host+" had started before is over, but for the long run", func() bool { return len(guardians(t, w)) == 1 })
	before := f.startsOf("short")
	others := func(starts map[string]int) (n int) {
		for name, of := range starts {
			if name != host {
				n += of
			}
		}
		return n
	}
	servers.Eventually(t, "the other hosts run the ticks", func() bool { return others(f.startsOf("short")) > others(before)+3 })
	if after := f.startsOf("short"); after[host] != before[host] {
		t.Errorf("%s has started %d runs while it drained", host, after[host]-before[host])
	}
	if code := f.get(host, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d while the daemon drains", code)
	}
	if w.ended() {
		t.Fatalf("the daemon ended before its command, with code %d: %s", w.code(), w.said())
	}
	remove(t, mark)
	if code := w.wait(); code != 0 {
		t.Errorf("the daemon ends with %d: %s", code, w.said())
	}
	for name, there := range map[string]bool{mark + ".over": true, mark + ".termed": false} {
		if _, err := os.Stat(name); (err == nil) != there {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
	for _, name := range cronHosts {
		if name == host {
			continue
		}
		daemons[name].signal(syscall.SIGTERM)
		if code := daemons[name].wait(); code != 0 {
			t.Errorf("the daemon of %s ends with %d: %s", name, code, daemons[name].said())
		}
	}
}
