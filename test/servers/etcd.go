package servers

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// EtcdOptions say how an etcd server differs from an empty one on ports of its own that trusts everybody.
type EtcdOptions struct {
	Password      string // of root; authentication is on
	TLS           *Certificates
	ClientCert    bool     // with TLS: a client without a certificate is turned away
	Address       string   // "": 127.0.0.1
	Netns         string   // the network namespace in which it runs; "": where the test does
	Dir           string   // where its data is; "": a folder of its own
	UnsafeNoFsync bool     // quicker, and a crash of the machine is no longer part of what a test can show
	Args          []string // more flags
}

// EtcdServer is one running etcd server, alone or a member of a cluster.
type EtcdServer struct {
	*Process
	Name  string
	Port  int // of clients
	peer  int // the port of the other members
	dir   string
	opts  EtcdOptions
	place place
	args  []string
	auth  bool // has been turned on, and is part of the data
	alone bool
}

// Etcd starts an etcd server that is a cluster of one. Its shortest lease is 2 s, as with etcd's defaults.
func Etcd(t testing.TB, o EtcdOptions) *EtcdServer {
	t.Helper()
	s := newEtcd(t, "m0", o)
	s.alone = true
	s.configure(s.dir, s.member())
	s.start(t)
	return s
}

// newEtcd prepares a server that does not run yet.
func newEtcd(t testing.TB, name string, o EtcdOptions) *EtcdServer {
	t.Helper()
	Require(t, "etcd")
	s := &EtcdServer{
		Name: name, Port: FreePort(t), peer: FreePort(t), dir: Dir(t), opts: o,
		place: place{address: o.Address, netns: o.Netns},
	}
	if o.TLS != nil {
		s.place.tls = o.TLS.Client()
	}
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
	})
	return s
}

// member is how the members of a cluster are told of this one.
func (s *EtcdServer) member() string { return s.Name + "=http://" + s.place.addr(s.peer) }

func (s *EtcdServer) configure(token, cluster string, more ...string) {
	client, peer := s.place.url("http", s.Endpoint()), "http://"+s.place.addr(s.peer)
	s.args = []string{
		"--name", s.Name, "--data-dir", s.Data(), "--log-level", "warn", "--bcrypt-cost", "4",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", cluster, "--initial-cluster-token", token,
	}
	if c := s.opts.TLS; c != nil {
		s.args = append(s.args, "--cert-file", c.ServerCert, "--key-file", c.ServerKey)
		if s.opts.ClientCert {
			s.args = append(s.args, "--client-cert-auth", "--trusted-ca-file", c.CA)
		}
	}
	if s.opts.UnsafeNoFsync {
		s.args = append(s.args, "--unsafe-no-fsync")
	}
	s.args = append(append(s.args, more...), s.opts.Args...)
}

// Data returns the folder with its data.
func (s *EtcdServer) Data() string {
	if s.opts.Dir != "" {
		return filepath.Join(s.opts.Dir, "data")
	}
	return filepath.Join(s.dir, "data")
}

func (s *EtcdServer) process() (name string, p *Process) { return s.Name, s.Process }

func (s *EtcdServer) start(t testing.TB) {
	t.Helper()
	s.run(t)
	s.await(t)
	s.enableAuth(t)
}

// run starts the process. A member is not ready before most of its cluster runs.
func (s *EtcdServer) run(t testing.TB) {
	t.Helper()
	path, err := Binary("etcd")
	if err != nil {
		t.Fatal(err)
	}
	words := s.place.words(append([]string{path}, s.args...)...)
	s.Process = launch(t, s.dir, words[0], words[1:]...)
}

// await waits until the server answers a read that most members confirm.
func (s *EtcdServer) await(t testing.TB) {
	t.Helper()
	s.ready(t, "etcd", s.Answers)
}

// Answers asks the server for a read that most members confirm.
func (s *EtcdServer) Answers() error {
	var health struct{ Health, Reason string }
	text, err := s.place.answer(statusTimeout, "GET", s.place.url("http", s.Endpoint())+"/health", nil, "")
	if err := decode(text, err, &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return errors.New(health.Reason)
	}
	return nil
}

// enableAuth makes root, whose password etcd keeps with its data.
func (s *EtcdServer) enableAuth(t testing.TB) {
	t.Helper()
	if s.opts.Password == "" || s.auth {
		return
	}
	for _, step := range []struct{ path, body string }{
		{"auth/role/add", `{"name":"root"}`},
		{"auth/user/add", fmt.Sprintf(`{"name":"root","password":%q}`, s.opts.Password)},
		{"auth/user/grant", `{"user":"root","role":"root"}`},
		{"auth/enable", `{}`},
	} {
		if _, err := s.try(startTimeout, step.path, step.body); err != nil {
			t.Fatal(err)
		}
	}
	s.auth = true
}

// TryAPI sends a request to the gateway, as root, and returns the body of the answer; a status other than 200 is an error.
func (s *EtcdServer) TryAPI(path, body string) (string, error) {
	return s.try(startTimeout, path, body)
}

// try sends a request to the gateway, which speaks JSON, as root.
func (s *EtcdServer) try(timeout time.Duration, path, body string) (string, error) {
	base, header := s.place.url("http", s.Endpoint())+"/v3/", http.Header{}
	if s.auth {
		var login struct{ Token string }
		text, err := s.place.answer(timeout, "POST", base+"auth/authenticate", nil, fmt.Sprintf(`{"name":"root","password":%q}`, s.opts.Password))
		if err := decode(text, err, &login); err != nil {
			return "", err
		}
		header.Set("Authorization", login.Token)
	}
	return s.place.answer(timeout, "POST", base+path, header, body)
}

// Endpoint returns host and port for clients.
func (s *EtcdServer) Endpoint() string { return s.place.addr(s.Port) }

// URL returns a backend URL, without credentials.
func (s *EtcdServer) URL() string { return s.place.url("etcd", s.Endpoint()) }

// Restart kills the server and starts it again, with its data or without. It waits until the server is ready, so
// most of its cluster must run.
func (s *EtcdServer) Restart(t testing.TB, keepData bool) {
	t.Helper()
	if !keepData && !s.alone {
		t.Fatal("a member without its data is another member: restart the cluster")
	}
	s.Kill()
	if !keepData {
		s.wipe(t)
	}
	s.start(t)
}

func (s *EtcdServer) wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(s.Data()); err != nil {
		t.Fatal(err)
	}
	s.auth = false
}

// Ctl runs etcdctl against this server, as root, and returns what it prints.
func (s *EtcdServer) Ctl(t testing.TB, args ...string) string {
	t.Helper()
	limit := startTimeout.String() // seconds else, which a busy machine takes
	out, err := s.TryCtl(append([]string{"--dial-timeout", limit, "--command-timeout", limit}, args...)...)
	if err != nil {
		t.Fatalf("etcdctl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// TryCtl is Ctl for a command that may fail.
func (s *EtcdServer) TryCtl(args ...string) (string, error) {
	path, err := Binary("etcdctl")
	if err != nil {
		return "", err
	}
	words := []string{path, "--endpoints", s.place.url("http", s.Endpoint())}
	if c := s.opts.TLS; c != nil {
		words = append(words, "--cacert", c.CA, "--cert", c.ClientCert, "--key", c.ClientKey)
	}
	if s.auth {
		words = append(words, "--user", "root:"+s.opts.Password)
	}
	words = s.place.words(append(words, args...)...)
	var stderr strings.Builder
	c := exec.Command(words[0], words[1:]...)
	c.Env, c.Stderr = environment(), &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

// follows returns the member's own ID and that of the leader it follows.
func (s *EtcdServer) follows() (self, leader string, err error) {
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		}
		Leader string
	}
	text, err := s.try(statusTimeout, "maintenance/status", "{}")
	err = decode(text, err, &status)
	return status.Header.Member, status.Leader, err
}
