package servers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisOptions say how a Redis server differs from an empty one on a port of its own without persistence.
type RedisOptions struct {
	At
	Password   string // of the default user, and towards a master
	ACL        []string
	TLS        *Certificates // TLS only, and a client certificate is wanted
	Unix       bool          // a socket only
	ReplicaOf  *RedisServer
	AppendOnly bool
	Cluster    bool
	Lines      []string // more lines of redis.conf
}

// RedisServer is one running Redis server.
type RedisServer struct {
	*server
	Socket string // "": a port only
	opts   RedisOptions
}

// Redis starts a Redis server.
func Redis(t testing.TB, o RedisOptions) *RedisServer {
	t.Helper()
	s := newRedis(t, "redis", o)
	lines := []string{
		"save \"\"", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1", "daemonize no",
		"protected-mode no", "dir " + s.Data(), // loopback only, or a network of the test
	}
	if o.Unix {
		s.Socket = filepath.Join(s.dir, "redis.sock")
		lines, s.Port = append(lines, "port 0", "unixsocket "+s.Socket), 0
	} else {
		kind := "port %d"
		if o.TLS != nil {
			kind = "port 0\ntls-port %d"
			lines = append(lines, "tls-cert-file "+o.TLS.ServerCert, "tls-key-file "+o.TLS.ServerKey,
				"tls-ca-cert-file "+o.TLS.CA, "tls-auth-clients optional")
		}
		lines = append(lines, "bind "+s.place.host(), fmt.Sprintf(kind, s.Port))
	}
	if o.Password != "" {
		lines = append(lines, "requirepass "+o.Password, "masterauth "+o.Password)
	}
	if o.ReplicaOf != nil {
		lines = append(lines, fmt.Sprintf("replicaof %s %d", o.ReplicaOf.place.host(), o.ReplicaOf.Port))
	}
	if o.AppendOnly {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	if o.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-node-timeout 1000", "cluster-config-file nodes.conf",
			fmt.Sprintf("cluster-port %d", FreePort(t)))
	}
	lines = append(append(lines, o.ACL...), o.Lines...)
	s.begin(t, lines)
	return s
}

// newRedis prepares a server, or a Sentinel.
func newRedis(t testing.TB, name string, o RedisOptions) *RedisServer {
	t.Helper()
	s := &RedisServer{opts: o}
	s.server = newServer(t, name, o.At, o.TLS, s)
	return s
}

// begin starts it with these lines of configuration.
func (s *RedisServer) begin(t testing.TB, lines []string) {
	t.Helper()
	writeFile(t, s.dir, "redis.conf", strings.Join(lines, "\n")+"\n")
	s.start(t)
}

func (s *RedisServer) command(testing.TB) []string {
	return []string{filepath.Join(s.dir, "redis.conf")}
}

// Answers asks the server whether it serves its clients: one that cannot write its data does not.
func (s *RedisServer) Answers() error {
	_, err := s.Try("ping")
	if err != nil && (strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "MASTERDOWN")) {
		return nil
	}
	return err
}

// Addr returns host and port, or the path of the socket.
func (s *RedisServer) Addr() string {
	if s.Socket != "" {
		return s.Socket
	}
	return s.place.addr(s.Port)
}

// Restart kills the server and starts it again, with its data or without.
func (s *RedisServer) Restart(t testing.TB, keepData bool) {
	t.Helper()
	if keepData && !s.opts.AppendOnly && !s.Ended() {
		s.Do(t, "save")
	}
	s.server.Restart(t, keepData)
}

// Do runs a command on the server, as its default user.
func (s *RedisServer) Do(t testing.TB, words ...any) any {
	t.Helper()
	v, err := s.Try(words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return v
}

// Try is Do for a command that may fail.
func (s *RedisServer) Try(words ...any) (any, error) {
	c := s.client()
	defer func() { _ = c.Close() }()
	v, err := c.Do(context.Background(), words...).Result()
	if err == goredis.Nil { //nolint:errorlint // never wrapped
		return nil, nil
	}
	return v, err
}

// Info returns one line of INFO.
func (s *RedisServer) Info(t testing.TB, section, name string) string {
	t.Helper()
	text, _ := s.Do(t, "info", section).(string)
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}

func (s *RedisServer) client() *goredis.Client {
	logging.Disable()
	o := &goredis.Options{
		Addr: s.Addr(), TLSConfig: s.place.tls, Password: s.opts.Password, Protocol: 2, MaxRetries: -1, DialerRetries: 1, PoolSize: 1,
		DisableIdentity: true, ReadTimeout: 20 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if s.Socket != "" {
		o.Network = "unix"
	}
	if s.place.Netns != "" { // without TLS
		o.Dialer = s.place.dial
	}
	return goredis.NewClient(o)
}

// Cluster starts a Redis Cluster of three masters, each with so many replicas.
func Cluster(t testing.TB, replicas int) []*RedisServer {
	t.Helper()
	Require(t, "cluster")
	var nodes []*RedisServer
	for range 3 * (1 + replicas) {
		nodes = append(nodes, Redis(t, RedisOptions{Cluster: true}))
	}
	args := []string{"--cluster", "create"}
	for _, n := range nodes {
		args = append(args, n.Addr())
	}
	args = append(args, "--cluster-yes", "--cluster-replicas", fmt.Sprint(replicas))
	Start(t, Dir(t), "redis-cli", args...).succeed(t, "redis-cli --cluster create")
	for _, n := range nodes {
		Eventually(t, "the cluster is whole", func() bool {
			text, _ := n.Do(t, "cluster", "info").(string)
			role := n.Info(t, "replication", "role")
			return strings.Contains(text, "cluster_state:ok") &&
				(role == "master" || n.Info(t, "replication", "master_link_status") == "up")
		})
	}
	// They know each other. From here on a node that its machine keeps from answering for a while is well.
	patience := 15 * time.Second // as by default
	if replicas > 0 {
		patience = 6 * time.Second // one that dies is replaced soon
	}
	for _, n := range nodes {
		n.Do(t, "config", "set", "cluster-node-timeout", patience.Milliseconds())
	}
	return nodes
}
