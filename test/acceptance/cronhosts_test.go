package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
