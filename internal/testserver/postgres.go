package testserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresOptions say how a PostgreSQL server differs from an empty one on a port of its own. It does not sync to disk: a
// crash of the machine is no part of what a test can show, one of the server is.
type PostgresOptions struct {
	Address string   // "": 127.0.0.1
	Netns   string   // the network namespace in which it runs; "": where the test does
	Lines   []string // more lines of postgresql.conf
}

// PostgresServer is one running PostgreSQL server. Whoever may enter its folder is trusted, which others of this machine
// may not; the others need the password.
type PostgresServer struct {
	*Process
	Port     int
	Password string // of the user postgres
	dir      string
	opts     PostgresOptions
	place    place
	as       *syscall.Credential // PostgreSQL refuses root; nil: as the tests
}

// Postgres starts a PostgreSQL server.
func Postgres(t testing.TB, o PostgresOptions) *PostgresServer {
	t.Helper()
	Require(t, "postgres")
	s := &PostgresServer{
		Port: FreePort(t), Password: rand.Text(), opts: o, as: unprivileged(t, "postgres", "postgres", "nobody"),
		place: place{address: o.Address, netns: o.Netns},
	}
	s.dir = dirFor(t, s.as)
	s.initialize(t)
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
		s.free()
	})
	s.start(t)
	return s
}

// initialize makes the folder with the data.
func (s *PostgresServer) initialize(t testing.TB) {
	t.Helper()
	args := []string{
		"-D", s.Data(), "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions",
		"--auth-local", "trust", "--auth-host", "scram-sha-256", "--pwfile", writeFile(t, s.dir, "password", s.Password+"\n"),
	}
	give(t, s.dir, s.as)
	s.finish(t, "initdb", args...)
	lines := append([]string{
		"listen_addresses = '" + s.place.host() + "'", fmt.Sprintf("port = %d", s.Port),
		"unix_socket_directories = '" + s.dir + "'", "fsync = off", "full_page_writes = off", "shared_buffers = 16MB",
		"max_connections = 100", "log_statement = none", "autovacuum = off",
	}, s.opts.Lines...)
	conf := filepath.Join(s.Data(), "postgresql.auto.conf")
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(s.Data(), "pg_hba.conf")
	text, err := os.ReadFile(hosts)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "host all all all scram-sha-256\n"...)
	if err := os.WriteFile(hosts, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// finish runs one of the server's programs to its end.
func (s *PostgresServer) finish(t testing.TB, name string, args ...string) {
	t.Helper()
	p := launchAs(t, s.as, s.dir, program(t, name), args...)
	t.Cleanup(p.Kill)
	p.succeed(t, name)
}

func (s *PostgresServer) start(t testing.TB) {
	t.Helper()
	words := s.place.words(program(t, "postgres"), "-D", s.Data())
	as := s.as
	if s.place.netns != "" && as != nil { // only root may enter a namespace
		words = s.place.words("setpriv", "--reuid", fmt.Sprint(as.Uid), "--regid", fmt.Sprint(as.Gid), "--clear-groups",
			"--pdeathsig", "KILL", // of which the kernel forgets on the way to another user
			program(t, "postgres"), "-D", s.Data())
		as = nil
	}
	for end := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		s.Process = launchAs(t, as, s.dir, words[0], words[1:]...)
		if s.readyOrLeft(t, end) {
			return
		}
	}
}

// readyOrLeft waits until the server answers. It says no if the one before it, which was killed, still has its memory.
func (s *PostgresServer) readyOrLeft(t testing.TB, end time.Time) bool {
	t.Helper()
	for {
		err := s.Answers()
		if err == nil {
			return true
		}
		left := s.Ended() && (strings.Contains(s.Log(), "pre-existing shared memory") || strings.Contains(s.Log(), "lock file"))
		switch {
		case time.Now().After(end), s.Ended() && !left:
			t.Fatalf("postgres is not ready: %v\n%s", err, s.Log())
		case left:
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Answers asks the server whether it serves its clients.
func (s *PostgresServer) Answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	config, err := pgx.ParseConfig(s.URL())
	if err != nil {
		return err
	}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialFrom(ctx, s.place.netns, network, addr)
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.Background()) }()
	_, err = c.Exec(ctx, "SELECT 1")
	return err
}

// Data returns the folder with its data.
func (s *PostgresServer) Data() string { return filepath.Join(s.dir, "data") }

// Addr returns host and port.
func (s *PostgresServer) Addr() string { return s.place.addr(s.Port) }

// URL returns the address of the database postgres, with its owner's name and password.
func (s *PostgresServer) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", s.Password), Host: s.Addr(), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Socket returns the folder with its socket, which is a host to PostgreSQL's clients.
func (s *PostgresServer) Socket() string { return s.dir }

// Kill ends the server and the processes of its connections without a chance to say goodbye, and returns when they are gone.
func (s *PostgresServer) Kill() {
	if s.Ended() {
		return
	}
	_ = s.Signal(syscall.SIGSTOP) // it starts no more of them, and their numbers stay theirs
	connections := children(s.PID())
	for _, pid := range connections {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.Process.Kill()
	for _, pid := range connections {
		for runs(pid) {
			time.Sleep(time.Millisecond) // between two questions
		}
	}
}

// free takes away the piece of System V shared memory that a server which was killed leaves behind. It marks the data as in
// use, and the next server with the same data takes it away; the kernel never does.
func (s *PostgresServer) free() {
	const line = 6 // of postmaster.pid, which is gone if the server had the time to clean up: its key and its number
	text, err := os.ReadFile(filepath.Join(s.Data(), "postmaster.pid"))
	if lines := strings.Split(string(text), "\n"); err == nil && len(lines) > line {
		if words := strings.Fields(lines[line]); len(words) == 2 {
			_ = exec.Command("ipcrm", "-m", words[1]).Run() //nolint:gosec // a number that the server wrote
		}
	}
}

// Stop freezes the server with all its connections; Cont lets them go on.
func (s *PostgresServer) Stop(t testing.TB) {
	t.Helper()
	s.Process.Stop(t) // first: it starts no more of them
	for _, pid := range children(s.PID()) {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
}

// Cont is the opposite of Stop.
func (s *PostgresServer) Cont(t testing.TB) {
	t.Helper()
	for _, pid := range children(s.PID()) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	s.Process.Cont(t)
}

// Restart kills the server and starts it again, with its data or without.
func (s *PostgresServer) Restart(t testing.TB, keepData bool) {
	t.Helper()
	s.Kill()
	if !keepData {
		s.free()
		if err := os.RemoveAll(s.Data()); err != nil {
			t.Fatal(err)
		}
		s.initialize(t)
	}
	s.start(t)
}
