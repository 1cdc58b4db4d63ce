package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// store is a kind of server to measure with.
type store struct {
	name, program string
	args          func(dir, addr, other string) []string
	ready         func(addr string) error
	url           func(addr string) string
	peerName      string // of the program that people use with it; "": none
	peer          func(addr string) (way, error)
	tells         int // of how many changes a holder of leaderrun asks the server to be told
	count         func(addr string) (counter, error)
}

// server is one that runs.
type server struct {
	counter
	addr  string
	cmd   *exec.Cmd
	quiet int // clients that it tells of changes before there are any
}

var stores = []store{
	{
		name: "Redis", program: "redis-server",
		args: func(dir, addr, _ string) []string {
			return []string{"--port", port(addr), "--bind", "127.0.0.1", "--save", "", "--dir", dir, "--logfile", filepath.Join(dir, "log")}
		},
		ready: func(addr string) error {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				_ = c.Close()
			}
			return err
		},
		url:   func(addr string) string { return "redis://" + addr + "/?longest-ttl=15s" },
		count: func(addr string) (counter, error) { return dialRedis(addr) },
	},
	{
		name: "etcd", program: "etcd",
		args: func(dir, addr, other string) []string {
			client, peer := "http://"+addr, "http://"+other
			return []string{
				"--data-dir", filepath.Join(dir, "data"), "--log-level", "error",
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
			}
		},
		ready:    func(addr string) error { return get("http://"+addr+"/health", `"true"`) },
		url:      func(addr string) string { return "etcd://" + addr },
		tells:    1,
		peerName: "etcdctl lock",
		peer: func(addr string) (way, error) {
			path, err := program("etcdctl")
			queue := func(job string) []string { return []string{path, "--endpoints", addr, "lock", "peer-" + job} }
			return way{run: queue("bench"), queue: queue}, err
		},
		count: func(addr string) (counter, error) { return etcdCounter("http://" + addr + "/metrics"), nil },
	},
	{
		name: "Consul", program: "consul",
		args: func(dir, addr, other string) []string {
			return []string{
				"agent", "-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir", filepath.Join(dir, "data"),
				"-http-port", port(addr), "-server-port", port(other), "-serf-lan-port", port(freeAddr()),
				"-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1", "-log-file", filepath.Join(dir, "log"),
				"-hcl", "performance { raft_multiplier = 1 } disable_update_check = true",
				// Counters to read, and more than 200 connections from one host, which here is all hosts.
				"-hcl", `telemetry { prometheus_retention_time = "24h" disable_hostname = true } limits { http_max_conns_per_client = 10000 }`,
			}
		},
		ready: func(addr string) error {
			return errors.Join(get("http://"+addr+"/v1/status/leader", ":"), get("http://"+addr+"/v1/health/service/consul?passing=1", "Node"))
		},
		url:      func(addr string) string { return "consul://" + addr },
		tells:    1,
		peerName: "consul lock",
		peer: func(addr string) (way, error) {
			path, err := program("consul")
			queue := func(job string) []string {
				return []string{path, "lock", "-http-addr=" + addr, "-shell=false", "peer-" + job}
			}
			return way{run: queue("bench"), queue: queue, tells: 1}, err
		},
		count: func(addr string) (counter, error) { return &consulCounter{addr: addr}, nil },
	},
}

// start starts a server on a free port and waits until it answers. It may return one along with an error.
func (s store) start(path, dir string) (*server, error) {
	home, err := os.MkdirTemp(dir, s.program)
	if err != nil {
		return nil, err
	}
	addr, other := freeAddr(), freeAddr()
	server := &server{addr: addr, cmd: exec.Command(path, s.args(home, addr, other)...)}
	if err := server.cmd.Start(); err != nil {
		return nil, err
	}
	if err := await(func() error { return s.ready(addr) }); err != nil {
		return server, err
	}
	if server.counter, err = s.count(addr); err != nil {
		return server, err
	}
	server.quiet, err = server.told()
	return server, err
}

// hush waits until the server has noticed that clients are gone, and returns how many it still tells of changes:
// Consul ends a question only when its time is over, and has some of its own.
func (s *server) hush() (quiet int, err error) {
	noisy := await(func() error {
		if quiet, err = s.told(); err == nil && quiet > s.quiet {
			return fmt.Errorf("%d clients", quiet)
		}
		return err
	})
	if err == nil && noisy != nil {
		s.quiet = quiet // its own, that have come since
	}
	return quiet, err
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func get(url, want string) error {
	r, err := http.Get(url) //nolint:gosec // our own server, and await has an end
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK || !strings.Contains(b.String(), want) {
		return fmt.Errorf("%s: %s", r.Status, b.String())
	}
	return nil
}

// await asks until something is so, for half a minute at most.
func await(ready func() error) (err error) {
	const patience, pause = 30 * time.Second, 10 * time.Millisecond
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		if err = ready(); err == nil {
			return nil
		}
	}
	return err
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

func freeAddr() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
