package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// store is a kind of server to measure with.
type store struct {
	name  string
	needs []string // programs, and files by their path
	// start starts the processes of a server and waits until they serve clients. It sets the server's url.
	start    func(s *server) error
	peerName string // of the program that people use with it; "": none
	peer     func(s *server) (way, error)
	early    int // runs that do not count, until the server is as fast as one that has run for long
}

// server is one that runs.
type server struct {
	addr      string // where it is to serve clients
	url       string // for leaderrun
	dir       string // its own
	log       *os.File
	processes []*exec.Cmd
	as        *syscall.Credential // nil: it runs as we do
	ending    syscall.Signal      // that ends its processes; 0: SIGKILL
}

// installed returns what of a store is missing.
func (s store) installed() error {
	for _, name := range s.needs {
		var err error
		if filepath.IsAbs(name) {
			_, err = os.Stat(name)
		} else {
			_, err = program(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server on a free port. It may return one along with an error.
func (s store) serve(dir string) (*server, error) {
	home, err := os.MkdirTemp(dir, strings.ToLower(s.name))
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		return nil, err
	}
	server := &server{addr: freeAddr(), dir: home, log: log}
	if err := s.start(server); err != nil {
		return server, fmt.Errorf("%w: %s", err, tail(log.Name()))
	}
	return server, nil
}

// command is a program that is to run as the server does.
func (s *server) command(name string, args ...string) (*exec.Cmd, error) {
	path, err := program(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd, nil
}

// launch starts one of the server's processes.
func (s *server) launch(name string, args ...string) error {
	cmd, err := s.command(name, args...)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, cmd)
	return nil
}

// stop ends all processes of the server, the last one first.
func (s *server) stop() {
	const patience = 10 * time.Second
	for _, cmd := range slices.Backward(s.processes) {
		if s.ending != 0 {
			_ = cmd.Process.Signal(s.ending)
			late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait() // it tells of the signal
			late.Stop()
			continue
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	_ = s.log.Close()
}

// unprivileged makes the server one that runs as an account, the first of these that there is, where we are root.
func (s *server) unprivileged(accounts ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range accounts {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, wrongUID := strconv.ParseUint(account.Uid, 10, 32)
		gid, wrongGID := strconv.ParseUint(account.Gid, 10, 32)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		// It may pass through the folder of the bed, and owns what is its own there.
		const passage = 0o711
		return errors.Join(wrongUID, wrongGID, os.Chmod(filepath.Dir(s.dir), passage), os.Chown(s.dir, int(uid), int(gid)))
	}
	return fmt.Errorf("it is not to run as root, and there is no user of %q", accounts)
}

// write writes a file of the server's.
func (s *server) write(name, text string) (path string, err error) {
	path = filepath.Join(s.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// tail returns the end of a log.
func tail(path string) string {
	const most = 500
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-most):])
}

// fetch returns what a server of ours answers if it says that all is well. Who waits for that has an end.
func fetch(client *http.Client, url string) (string, error) {
	r, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, r.Status, text)
	}
	return string(text), err
}

// says returns an error unless a server's answer has a text in it.
func says(url, want string) error {
	text, err := fetch(http.DefaultClient, url)
	if err == nil && !strings.Contains(text, want) {
		err = fmt.Errorf("%s: %s", url, text)
	}
	return err
}

// listens returns an error until somebody takes connections at the server's address.
func (s *server) listens() error {
	c, err := net.Dial("tcp", s.addr)
	if err == nil {
		_ = c.Close()
	}
	return err
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

// freeAddr returns an address that nobody listens on. Its port is below those that the kernel gives to connections: one of
// them would have it before the server does.
func freeAddr() string {
	const first, ports, tries = 10_000, 10_000, 1_000
	var err error
	for range tries {
		addr := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(ports)) //nolint:gosec // any will do
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	panic(err)
}
