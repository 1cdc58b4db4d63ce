package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// baseline is what all are compared with.
const baseline = "flock"

// way is one way to run a command under a lock.
type way struct {
	name string
	run  []string // comes before the command
	wait []string // the same, but waits for the lock; nil: it cannot
	peer string   // the way that uses the same store; "": none
}

// prepare builds leaderrun, starts the servers that there are, and lists what is compared.
func prepare(dir string) (ways []way, stop func(), err error) {
	var servers []*exec.Cmd
	stop = func() {
		for _, s := range servers {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
	}
	leaderrun, err := buildLeaderrun(dir)
	if err != nil {
		return nil, stop, err
	}
	lock := filepath.Join(dir, "lock")
	ways = []way{
		{name: "bare spawn"},
		{name: baseline, run: []string{"flock", "-n", lock}, wait: []string{"flock", lock}},
		leaderrunWay("file", leaderrun, "file://"+dir, baseline),
	}
	for _, s := range stores {
		path, err := program(s.program)
		if err != nil {
			fmt.Printf("%s is not measured: %v\n", s.name, err)
			continue
		}
		addr, server, err := s.start(path, dir)
		if server != nil {
			servers = append(servers, server)
		}
		if err != nil {
			return nil, stop, fmt.Errorf("%s: %w", s.name, err)
		}
		w := leaderrunWay(s.name, leaderrun, s.url(addr), "")
		if s.peer != nil {
			peer, err := s.peer(addr)
			if err != nil {
				return nil, stop, err
			}
			ways = append(ways, peer)
			w.peer = peer.name
		}
		// The first run makes the record, and waits out the quarantine of a Redis that has just started.
		if _, err := spend(append(slices.Clone(w.run), "true")); err != nil {
			return nil, stop, err
		}
		ways = append(ways, w)
	}
	return ways, stop, nil
}

// buildLeaderrun builds leaderrun as `make build` does, and returns its path.
func buildLeaderrun(dir string) (string, error) {
	leaderrun := filepath.Join(dir, "leaderrun")
	built := leaderrun + ".built"
	build := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-o", built, "github.com/leaderrun/leaderrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return leaderrun, install(built, leaderrun)
}

// install copies the program, as whoever installs it does. The linker writes a file through a mapping, in single
// pages of the page cache, and a run of that takes 6 to 9% longer than one of a file that was written or read in.
func install(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o700) //nolint:gosec // it is to be executed
}

func leaderrunWay(store, binary, backend, peer string) way {
	run := []string{binary, "run", "--backend", backend}
	return way{
		name: "leaderrun, " + store, peer: peer, run: append(slices.Clone(run), "bench"),
		wait: append(run, "--wait", "forever", "bench"),
	}
}

// store is a server to measure with.
type store struct {
	name, program string
	args          func(dir, addr, other string) []string
	ready         func(addr string) error
	url           func(addr string) string
	peer          func(addr string) (way, error) // nil: none
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
		url: func(addr string) string { return "redis://" + addr + "/?longest-ttl=15s" },
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
		ready: func(addr string) error { return get("http://"+addr+"/health", `"true"`) },
		url:   func(addr string) string { return "etcd://" + addr },
		peer: func(addr string) (way, error) {
			path, err := program("etcdctl")
			lock := []string{path, "--endpoints", addr, "lock", "peer"}
			return way{name: "etcdctl lock", run: lock, wait: lock}, err
		},
	},
	{
		name: "Consul", program: "consul",
		args: func(dir, addr, other string) []string {
			return []string{
				"agent", "-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir", filepath.Join(dir, "data"),
				"-http-port", port(addr), "-server-port", port(other), "-serf-lan-port", port(freeAddr()),
				"-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1", "-log-file", filepath.Join(dir, "log"),
				"-hcl", "performance { raft_multiplier = 1 } disable_update_check = true",
			}
		},
		ready: func(addr string) error {
			return errors.Join(get("http://"+addr+"/v1/status/leader", ":"), get("http://"+addr+"/v1/health/service/consul?passing=1", "Node"))
		},
		url: func(addr string) string { return "consul://" + addr },
		peer: func(addr string) (way, error) {
			path, err := program("consul")
			lock := []string{path, "lock", "-http-addr=" + addr, "-shell=false", "peer"}
			return way{name: "consul lock", run: lock, wait: lock}, err
		},
	},
}

// start starts the server on a free port and waits until it answers. It may return a server along with an error.
func (s store) start(path, dir string) (addr string, server *exec.Cmd, err error) {
	home := filepath.Join(dir, s.name)
	if err := os.Mkdir(home, 0o700); err != nil {
		return "", nil, err
	}
	addr, other := freeAddr(), freeAddr()
	server = exec.Command(path, s.args(home, addr, other)...)
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	return addr, server, await(func() error { return s.ready(addr) })
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

func await(ready func() error) (err error) {
	for range 3000 {
		if err = ready(); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
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

// program returns the path of a program that scripts/servers.sh built or installed.
func program(name string) (string, error) {
	if cache, err := os.UserCacheDir(); err == nil {
		if path, err := exec.LookPath(filepath.Join(cache, "leaderrun", "servers", name)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}
