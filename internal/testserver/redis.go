package testserver

import (
	"context"
	"fmt"
	"os"
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
	*Process
	Port   int    // 0: a socket only
	Socket string // "": a port only
	dir    string
	opts   RedisOptions
}

// Redis starts a Redis server.
func Redis(t testing.TB, o RedisOptions) *RedisServer {
	t.Helper()
	Require(t, "redis")
	s := &RedisServer{dir: Dir(t), opts: o}
	lines := []string{
		"save \"\"", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1", "daemonize no",
		"protected-mode no", "dir " + s.dir, // loopback only
	}
	if o.Unix {
		s.Socket = filepath.Join(s.dir, "redis.sock")
		lines = append(lines, "port 0", "unixsocket "+s.Socket)
	} else {
		s.Port = FreePort(t)
		kind := "port %d"
		if o.TLS != nil {
			kind = "port 0\ntls-port %d"
			lines = append(lines, "tls-cert-file "+o.TLS.ServerCert, "tls-key-file "+o.TLS.ServerKey,
				"tls-ca-cert-file "+o.TLS.CA, "tls-auth-clients optional")
		}
		lines = append(lines, "bind 127.0.0.1", fmt.Sprintf(kind, s.Port))
	}
	if o.Password != "" {
		lines = append(lines, "requirepass "+o.Password, "masterauth "+o.Password)
	}
	if o.ReplicaOf != nil {
		lines = append(lines, fmt.Sprintf("replicaof 127.0.0.1 %d", o.ReplicaOf.Port))
	}
	if o.AppendOnly {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	if o.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-node-timeout 1000", "cluster-config-file nodes.conf",
			fmt.Sprintf("cluster-port %d", FreePort(t)))
	}
	lines = append(append(lines, o.ACL...), o.Lines...)
	writeFile(t, s.dir, "redis.conf", strings.Join(lines, "\n")+"\n")
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
	})
	s.start(t)
	return s
}

func (s *RedisServer) start(t testing.TB) {
	t.Helper()
	s.Process = launch(t, s.dir, "redis-server", filepath.Join(s.dir, "redis.conf"))
	s.ready(t, "redis-server", func() error {
		c := s.client()
		defer func() { _ = c.Close() }()
		err := c.Ping(t.Context()).Err()
		if err != nil && (strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "MASTERDOWN")) {
			return nil
		}
		return err
	})
}

// Addr returns host and port, or the path of the socket.
func (s *RedisServer) Addr() string {
	if s.Socket != "" {
		return s.Socket
	}
	return loopback(s.Port)
}

// Restart kills the server and starts it again, with its data or without.
func (s *RedisServer) Restart(t testing.TB, keepData bool) {
	t.Helper()
	if keepData && !s.opts.AppendOnly && !s.Ended() {
		s.Do(t, "save")
	}
	s.Kill()
	if !keepData {
		for _, name := range []string{"dump.rdb", "appendonlydir"} {
			if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.start(t)
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
		Addr: s.Addr(), Password: s.opts.Password, Protocol: 2, MaxRetries: -1, DialerRetries: 1, PoolSize: 1,
		DisableIdentity: true, ReadTimeout: 20 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if s.Socket != "" {
		o.Network = "unix"
	}
	if s.opts.TLS != nil {
		o.TLSConfig = s.opts.TLS.Client()
	}
	return goredis.NewClient(o)
}

// SentinelSet is a master with replicas, and the Sentinels that watch them.
type SentinelSet struct {
	Name      string // of the master, in the Sentinels
	Servers   []*RedisServer
	Sentinels []*RedisServer
}

// Sentinel starts a master with replicas and three Sentinels, who agree within about a second that it is down.
func Sentinel(t testing.TB, replicas int) *SentinelSet {
	t.Helper()
	Require(t, "sentinel")
	set := &SentinelSet{Name: "main"}
	set.Servers = append(set.Servers, Redis(t, RedisOptions{}))
	for range replicas {
		set.Servers = append(set.Servers, Redis(t, RedisOptions{ReplicaOf: set.Servers[0]}))
	}
	set.InSync(t, replicas)
	for range 3 {
		s := &RedisServer{dir: Dir(t), Port: FreePort(t)}
		conf := writeFile(t, s.dir, "sentinel.conf", fmt.Sprintf(`port %d
bind 127.0.0.1
dir %s
sentinel monitor main 127.0.0.1 %d 2
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 3000
`, s.Port, s.dir, set.Servers[0].Port))
		s.Process = Start(t, s.dir, "redis-sentinel", conf)
		s.ready(t, "redis-sentinel", func() error { _, err := s.Try("ping"); return err })
		set.Sentinels = append(set.Sentinels, s)
	}
	for _, s := range set.Sentinels {
		Eventually(t, "the Sentinels know each other and the replicas", func() bool {
			text, _ := s.Do(t, "info", "sentinel").(string)
			return strings.Contains(text, fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=3", set.Servers[0].Addr(), replicas))
		})
	}
	return set
}

// URL returns a backend URL that names the Sentinels.
func (s *SentinelSet) URL() string {
	var hosts []string
	for _, x := range s.Sentinels {
		hosts = append(hosts, x.Addr())
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + s.Name
}

// Master returns the server that most Sentinels name.
func (s *SentinelSet) Master(t testing.TB) *RedisServer {
	t.Helper()
	votes := map[string]int{}
	for _, x := range s.Sentinels {
		words, _ := x.Do(t, "sentinel", "get-master-addr-by-name", s.Name).([]any)
		if len(words) == 2 {
			votes[fmt.Sprint(words[0], ":", words[1])]++
		}
	}
	for _, server := range s.Servers {
		if 2*votes[server.Addr()] > len(s.Sentinels) {
			return server
		}
	}
	return nil
}

// InSync waits until a master has n replicas that are in step.
func (s *SentinelSet) InSync(t testing.TB, n int) {
	t.Helper()
	Eventually(t, "the replicas are in step", func() bool {
		for _, server := range s.Servers {
			if text, _ := server.Try("info", "replication"); text != nil {
				text := text.(string) //nolint:errcheck // INFO is text
				if strings.Contains(text, "role:master") && strings.Count(text, "state=online") >= n {
					return true
				}
			}
		}
		return false
	})
}

// Changed waits until the Sentinels name another master than old, and returns it.
func (s *SentinelSet) Changed(t testing.TB, old *RedisServer) *RedisServer {
	t.Helper()
	var now *RedisServer
	Eventually(t, "another master", func() bool {
		now = s.Master(t)
		return now != nil && now != old && now.Info(t, "replication", "role") == "master"
	})
	return now
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
	cli := Start(t, Dir(t), "redis-cli", args...)
	select {
	case <-cli.done:
	case <-time.After(startTimeout):
	}
	if !cli.Ended() || !cli.cmd.ProcessState.Success() {
		t.Fatalf("redis-cli --cluster create: %s", cli.Log())
	}
	for _, n := range nodes {
		Eventually(t, "the cluster is whole", func() bool {
			text, _ := n.Do(t, "cluster", "info").(string)
			role := n.Info(t, "replication", "role")
			return strings.Contains(text, "cluster_state:ok") &&
				(role == "master" || n.Info(t, "replication", "master_link_status") == "up")
		})
	}
	return nodes
}
