package servers

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// ConsulOptions say how a Consul server differs from an empty one on ports of its own that trusts everybody.
type ConsulOptions struct {
	At
	Token      string // a UUID, the token of the initial management; ACLs are on and deny all without one. A datacenter has one
	TLS        *Certificates
	ClientCert bool   // with TLS: a client without a certificate is turned away
	Config     string // more configuration, as HCL or JSON; it takes precedence
}

// ConsulServer is one running Consul server, alone or a member of a datacenter.
type ConsulServer struct {
	*server
	raft, serf int // its ports for the other servers
	opts       ConsulOptions
}

// ConsulSet is the servers of a Consul datacenter.
type ConsulSet = Set[*ConsulServer]

// Consul starts a Consul server that is a datacenter of one.
func Consul(t testing.TB, o ConsulOptions) *ConsulServer {
	t.Helper()
	return alone(t, newConsul(t, o))
}

// ConsulCluster starts a Consul datacenter of n servers.
func ConsulCluster(t testing.TB, n int) *ConsulSet {
	t.Helper()
	return ConsulClusterOf(t, make([]ConsulOptions, n)...)
}

// ConsulClusterOf starts a Consul datacenter.
func ConsulClusterOf(t testing.TB, members ...ConsulOptions) *ConsulSet {
	t.Helper()
	return newSet(t, newConsul, members)
}

func newConsul(t testing.TB, o ConsulOptions) *ConsulServer {
	t.Helper()
	s := &ConsulServer{opts: o}
	s.server = newServer(t, "consul", o.At, o.TLS, s)
	s.raft, s.serf = FreePort(t), FreePort(t)
	return s
}

func (s *ConsulServer) configure(t testing.TB, all []*ConsulServer) {
	t.Helper()
	var join []string
	for _, other := range all {
		if other != s {
			join = append(join, other.place.addr(other.serf))
		}
	}
	ports := map[string]int{
		"http": s.Port, "https": -1, "grpc": -1, "grpc_tls": -1, "dns": -1,
		"server": s.raft, "serf_lan": s.serf, "serf_wan": -1,
	}
	host, id := s.place.host(), rand.Text()
	conf := map[string]any{
		"server": true, "bootstrap_expect": len(all), "data_dir": s.Data(), "log_level": "warn",
		"node_name": s.Name, "node_id": fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]), // the same without its data
		"bind_addr": host, "client_addr": host, "advertise_addr": host, "ports": ports,
		"retry_join": join, "retry_interval": "1s", "rejoin_after_leave": true,
		"performance": map[string]any{"raft_multiplier": 1},
		// A server that a test has killed or frozen returns as the one that it was.
		"autopilot":            map[string]any{"cleanup_dead_servers": false},
		"disable_update_check": true, "connect": map[string]any{"enabled": false},
	}
	if s.opts.Token != "" {
		conf["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny",
			"tokens": map[string]any{"initial_management": s.opts.Token, "agent": s.opts.Token},
		}
	}
	if c := s.opts.TLS; c != nil {
		ports["http"], ports["https"] = -1, s.Port
		conf["tls"] = map[string]any{"https": map[string]any{
			"ca_file": c.CA, "cert_file": c.ServerCert, "key_file": c.ServerKey, "verify_incoming": s.opts.ClientCert,
		}}
	}
	text, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.dir, "consul.json", string(text))
	writeFile(t, s.dir, "more.hcl", s.opts.Config)
}

func (s *ConsulServer) command(testing.TB) []string {
	return []string{"agent", "-config-file", filepath.Join(s.dir, "consul.json"), "-config-file", filepath.Join(s.dir, "more.hcl")}
}

// Answers asks whether the server knows a leader and the leader takes what is written here. That is a session,
// because a node can have none before the leader has heard of its health, which takes longer than a write.
func (s *ConsulServer) Answers() error {
	if leader, err := s.leader(); err != nil || leader == "" {
		return errors.Join(err, errors.New("no leader"))
	}
	var session struct{ ID string }
	text, err := s.try(statusTimeout, "PUT", "/v1/session/create", "")
	if err := decode(text, err, &session); err != nil {
		return err
	}
	_, err = s.try(statusTimeout, "PUT", "/v1/session/destroy/"+session.ID, "")
	return err
}

// leader returns the address of the server that this one follows, or "".
func (s *ConsulServer) leader() (leader string, err error) {
	text, err := s.try(statusTimeout, "GET", "/v1/status/leader", "")
	err = decode(text, err, &leader)
	return leader, err
}

// follows returns the server's own address among servers and that of the leader it follows.
func (s *ConsulServer) follows() (self, leader string, err error) {
	leader, err = s.leader()
	return s.place.addr(s.raft), leader, err
}

// API sends a request to the server, with the token that may do everything, and returns the body of the answer.
func (s *ConsulServer) API(t testing.TB, method, path, body string) string {
	t.Helper()
	text, err := s.TryAPI(method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TryAPI is API for a request that may fail; an answer other than 200 is an error.
func (s *ConsulServer) TryAPI(method, path, body string) (string, error) {
	return s.try(patience, method, path, body)
}

func (s *ConsulServer) try(timeout time.Duration, method, path, body string) (string, error) {
	header := http.Header{}
	if s.opts.Token != "" {
		header.Set("X-Consul-Token", s.opts.Token)
	}
	return s.place.answer(timeout, method, s.http()+path, header, body)
}
