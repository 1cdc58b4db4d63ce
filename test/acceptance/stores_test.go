package acceptance

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// store is a backend of one server, or of none. Tests on it share the server, which nobody stops, and have a part of it each.
type store struct {
	name string
	ttl  time.Duration // the shortest that it keeps
	// start returns its address, and the URL where it is reached at that or another, through a proxy perhaps.
	start func(t *testing.T) (addr string, url func(addr string) string)
}

// at is a store whose address stands in its URL, and a part of it that nobody else has.
func at(scheme, addr, query string) (string, func(addr string) string) {
	query = "?prefix=" + strings.ToLower(rand.Text()) + query
	return addr, func(addr string) string { return scheme + addr + query }
}

var stores = []store{
	{"file", ttl, func(t *testing.T) (string, func(string) string) {
		t.Helper()
		return servers.Dir(t), func(dir string) string { return "file://" + dir }
	}},
	{"redis", ttl, func(t *testing.T) (string, func(string) string) {
		t.Helper()
		return at("redis://", servers.SharedRedis(t).Addr(), "&longest-ttl="+ttl.String())
	}},
	{"etcd", ttl, func(t *testing.T) (string, func(string) string) {
		t.Helper()
		return at("etcd://", servers.SharedEtcd(t).Endpoint(), "")
	}},
	{"consul", 2 * ttl, func(t *testing.T) (string, func(string) string) {
		t.Helper()
		return at("consul://", servers.SharedConsul(t).Addr(), "")
	}},
	{"zookeeper", ttl, func(t *testing.T) (string, func(string) string) {
		t.Helper()
		return at("zk://", servers.SharedZooKeeper(t).Addr(), "")
	}},
	{"kubernetes", ttl, func(t *testing.T) (string, func(string) string) {
		t.Helper()
		s := servers.SharedKubernetes(t)
		namespace := s.Namespace(t)
		return s.Addr(), func(addr string) string {
			return "k8s://" + namespace + "?kubeconfig=" + s.KubeconfigAt(t, servers.KubernetesAdmin, addr)
		}
	}},
	{"postgres", ttl, func(t *testing.T) (string, func(string) string) {
		t.Helper()
		s := servers.SharedPostgres(t)
		return s.Addr(), func(addr string) string { return s.URLAt(addr) + "&longest-ttl=" + ttl.String() }
	}},
}

// onEveryStore runs a test on every store, side by side.
func onEveryStore(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	onStores(t, stores, test)
}

func onStores(t *testing.T, stores []store, test func(t *testing.T, b *bed)) {
	t.Helper()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			addr, url := s.start(t)
			b := newBed(t, url(addr))
			b.ttl, b.mild = s.ttl, true
			test(t, b)
		})
	}
}

// ofYoungServer is what the first runs on a server say that has just started.
var ofYoungServer = regexp.MustCompile(`(?m)^leaderrun: waiting \S+: the backend may have forgotten who runs the job: .*\n`)

// answer is what a leaderrun that has ended leaves behind, but that the server is young.
type answer struct {
	code           int
	stdout, stderr string
}

// leaderrun runs it to its end. Any goroutine may call it.
func leaderrun(words ...string) answer {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary, words...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	code := 0
	if err := cmd.Run(); err != nil {
		code = -1
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		}
	}
	return answer{code, stdout.String(), ofYoungServer.ReplaceAllString(stderr.String(), "")}
}

// run is a host's run of the bed's job to its end, with another command than the witness.
func (b *bed) run(options []string, command ...string) answer {
	words := append([]string{"run", "--backend", b.backend, "--ttl", b.ttl.String()}, options...)
	return leaderrun(append(append(words, "job"), command...)...)
}

// ask runs another command than run on the bed's backend.
func (b *bed) ask(command string, words ...string) answer {
	return leaderrun(append([]string{command, "--backend", b.backend}, words...)...)
}

// warnings counts the lines of stderr that are not hints.
func (a answer) warnings() int { return strings.Count("\n"+a.stderr, "\nleaderrun: ") }

func (a answer) String() string {
	return fmt.Sprintf("code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
}

// is fails the test unless the code is as it should be, and nothing was said.
func (a answer) is(t *testing.T, who string, code int) {
	t.Helper()
	if a.code != code || a.stderr != "" {
		t.Errorf("%s: %v, want code %d and nothing said", who, a, code)
	}
}
