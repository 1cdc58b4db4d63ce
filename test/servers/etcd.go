package servers

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// EtcdOptions say how an etcd server differs from an empty one on ports of its own that trusts everybody.
type EtcdOptions struct {
	At
	Password      string // of root; authentication is on. Only for one that is alone
	TLS           *Certificates
	ClientCert    bool     // with TLS: a client without a certificate is turned away
	UnsafeNoFsync bool     // quicker, and a crash of the machine is no longer part of what a test can show
	Args          []string // more flags
}

// EtcdServer is one running etcd server, alone or a member of a cluster.
type EtcdServer struct {
	*server
	peer    int // the port of the other members
	opts    EtcdOptions
	cluster string // all members
	auth    bool   // has been turned on, and is part of the data
}

// EtcdSet is an etcd cluster.
type EtcdSet = Set[*EtcdServer]

// Etcd starts an etcd server that is a cluster of one. Its shortest lease is 2 s, as with etcd's defaults.
func Etcd(t testing.TB, o EtcdOptions) *EtcdServer {
	t.Helper()
	return alone(t, newEtcd(t, o))
}

// EtcdCluster starts an etcd cluster of n members.
func EtcdCluster(t testing.TB, n int) *EtcdSet {
	t.Helper()
	return EtcdClusterOf(t, make([]EtcdOptions, n)...)
}

// EtcdClusterOf starts an etcd cluster.
func EtcdClusterOf(t testing.TB, members ...EtcdOptions) *EtcdSet {
	t.Helper()
	return newSet(t, newEtcd, members)
}

func newEtcd(t testing.TB, o EtcdOptions) *EtcdServer {
	t.Helper()
	s := &EtcdServer{opts: o}
	s.server = newServer(t, "etcd", o.At, o.TLS, s)
	s.peer = FreePort(t)
	return s
}

func (s *EtcdServer) configure(_ testing.TB, all []*EtcdServer) {
	var members []string
	for _, m := range all {
		members = append(members, m.Name+"=http://"+m.place.addr(m.peer))
	}
	s.cluster = strings.Join(members, ",")
}

func (s *EtcdServer) command(testing.TB) []string {
	client, peer := s.http(), "http://"+s.place.addr(s.peer)
	args := []string{
		"--name", s.Name, "--data-dir", s.Data(), "--log-level", "warn", "--bcrypt-cost", "4",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", s.cluster, "--initial-cluster-token", s.cluster,
	}
	if c := s.opts.TLS; c != nil {
		args = append(args, "--cert-file", c.ServerCert, "--key-file", c.ServerKey)
		if s.opts.ClientCert {
			args = append(args, "--client-cert-auth", "--trusted-ca-file", c.CA)
		}
	}
	if s.opts.UnsafeNoFsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return append(args, s.opts.Args...)
}

// Answers asks the server for a read that most members confirm.
func (s *EtcdServer) Answers() error {
	var health struct{ Health, Reason string }
	text, err := s.place.answer(statusTimeout, "GET", s.http()+"/health", nil, "")
	if err := decode(text, err, &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return errors.New(health.Reason)
	}
	return nil
}

// initialize makes data without users.
func (s *EtcdServer) initialize(t testing.TB) {
	t.Helper()
	s.server.initialize(t)
	s.auth = false
}

// await makes root, too, whose password etcd keeps with its data.
func (s *EtcdServer) await(t testing.TB) {
	t.Helper()
	s.server.await(t)
	if s.opts.Password == "" || s.auth {
		return
	}
	for _, step := range []struct{ path, body string }{
		{"auth/role/add", `{"name":"root"}`},
		{"auth/user/add", fmt.Sprintf(`{"name":"root","password":%q}`, s.opts.Password)},
		{"auth/user/grant", `{"user":"root","role":"root"}`},
		{"auth/enable", `{}`},
	} {
		if _, err := s.try(patience, step.path, step.body); err != nil {
			t.Fatal(err)
		}
	}
	s.auth = true
}

// TryAPI sends a request to the gateway, as root, and returns the body of the answer; a status other than 200 is an error.
func (s *EtcdServer) TryAPI(path, body string) (string, error) {
	return s.try(patience, path, body)
}

// try sends a request to the gateway, which speaks JSON, as root.
func (s *EtcdServer) try(timeout time.Duration, path, body string) (string, error) {
	base, header := s.http()+"/v3/", http.Header{}
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

// Endpoint is Addr.
func (s *EtcdServer) Endpoint() string { return s.Addr() }

// Ctl runs etcdctl against this server, as root, and returns what it prints.
func (s *EtcdServer) Ctl(t testing.TB, args ...string) string {
	t.Helper()
	limit := patience.String() // seconds else, which a busy machine takes
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
	words := []string{path, "--endpoints", s.http()}
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
