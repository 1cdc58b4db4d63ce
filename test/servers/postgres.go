package servers

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PostgresOptions say how a PostgreSQL server differs from an empty one on a port of its own. It does not sync to disk: a
// crash of the machine is no part of what a test can show, one of the server is.
type PostgresOptions struct {
	At
	Short      bool          // it starts in the short run, too
	TLS        *Certificates // TLS only
	ClientCert bool          // with TLS: a client without a certificate is turned away
	Init       []string      // more flags of initdb
	Lines      []string      // more lines of postgresql.conf, which count more than those before them
	Clients    []string      // more lines of pg_hba.conf, which come first
}

// PostgresServer is one running PostgreSQL server. Whoever may enter its folder is trusted, which others of this machine
// may not; the others need the password.
type PostgresServer struct {
	*server
	Password string // of the user postgres
	database string // of its address
	opts     PostgresOptions
	role     []string // lines of postgresql.conf: of whom it is a standby, and who stands by it
}

// Postgres starts a PostgreSQL server.
func Postgres(t testing.TB, o PostgresOptions) *PostgresServer {
	t.Helper()
	s := newPostgres(t, o)
	s.start(t)
	return s
}

// newPostgres prepares a server that has no data yet.
func newPostgres(t testing.TB, o PostgresOptions) *PostgresServer {
	t.Helper()
	if !o.Short {
		SkipShort(t)
	}
	s := &PostgresServer{Password: rand.Text(), database: "postgres", opts: o}
	s.server = newServer(t, "postgres", o.At, o.TLS, s)
	s.place.Env = append([]string{"HOME=" + s.dir}, o.Env...) // a standby looks in the home of whoever started it for a certificate to show
	if o.TLS != nil {
		// It reads no key that is not its own.
		for name, path := range map[string]string{"server.crt": o.TLS.ServerCert, "server.key": o.TLS.ServerKey, "ca.crt": o.TLS.CA} {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, s.dir, name, string(text))
		}
	}
	t.Cleanup(func() {
		s.Kill()
		s.free()
	})
	return s
}

func (s *PostgresServer) initialize(t testing.TB) {
	t.Helper()
	args := append([]string{
		"-D", s.Data(), "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions",
		"--auth-local", "trust", "--auth-host", "scram-sha-256", "--pwfile", writeFile(t, s.dir, "password", s.Password+"\n"),
	}, s.opts.Init...)
	s.own(t)
	s.finish(t, "initdb", args...)
	s.configure(t)
}

// own makes the folders in which the server is to have its data the server's.
func (s *PostgresServer) own(t testing.TB) {
	t.Helper()
	give(t, s.dir, s.as)
	if s.place.Dir != "" {
		give(t, s.place.Dir, s.as)
	}
}

// write writes a file that lies with the data. The server may run.
func (s *PostgresServer) write(t testing.TB, name, text string) {
	t.Helper()
	give(t, writeFile(t, s.Data(), name, text), s.as)
}

// configure writes the files that say how the server runs, and who may come.
func (s *PostgresServer) configure(t testing.TB) {
	t.Helper()
	lines := []string{
		"listen_addresses = '" + s.place.host() + "'", fmt.Sprintf("port = %d", s.Port),
		"unix_socket_directories = '" + s.dir + "'", "fsync = off", "full_page_writes = off", "shared_buffers = 16MB",
		"max_connections = 100", "log_statement = none", "autovacuum = off",
	}
	kind, wants := "host", ""
	if s.opts.TLS != nil {
		kind = "hostssl"
		lines = append(lines, "ssl = on", "ssl_cert_file = '"+filepath.Join(s.dir, "server.crt")+"'",
			"ssl_key_file = '"+filepath.Join(s.dir, "server.key")+"'", "ssl_ca_file = '"+filepath.Join(s.dir, "ca.crt")+"'")
	}
	if s.opts.ClientCert {
		wants = " clientcert=verify-ca"
	}
	clients := slices.Concat(s.opts.Clients, []string{
		"local all,replication all trust",
		kind + " all,replication all all scram-sha-256" + wants,
	})
	// The file of ALTER SYSTEM, which is read last.
	s.write(t, "postgresql.auto.conf", strings.Join(slices.Concat(lines, s.opts.Lines, s.role), "\n")+"\n")
	s.write(t, "pg_hba.conf", strings.Join(clients, "\n")+"\n")
}

func (s *PostgresServer) command(testing.TB) []string { return []string{"-D", s.Data()} }

// await starts the server again as long as the one before it, which was killed, still has its memory.
func (s *PostgresServer) await(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(patience); !s.readyOrLeft(t, end); {
		time.Sleep(20 * time.Millisecond)
		s.run(t)
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
	_, err := s.ask(statusTimeout, "SELECT 1")
	return err
}

// Do runs statements on the server, as its owner, and returns the first column of the last one's first row as text.
func (s *PostgresServer) Do(t testing.TB, query string) string {
	t.Helper()
	text, err := s.Try(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// Try is Do for statements that may fail.
func (s *PostgresServer) Try(query string) (string, error) {
	return s.ask(patience, query)
}

func (s *PostgresServer) ask(timeout time.Duration, query string) (string, error) {
	return askPostgres(timeout, s.URL(), s.place, query)
}

// another returns the same server with the address of a new database.
func (s *PostgresServer) another(t testing.TB) *PostgresServer {
	t.Helper()
	a := *s
	a.database = strings.ToLower("d" + rand.Text())
	s.Do(t, "CREATE DATABASE "+a.database+" TEMPLATE template0")
	return &a
}

// URL returns the address of the database postgres, or of the one that SharedPostgres made, with its owner's name and password.
func (s *PostgresServer) URL() string {
	return s.URLAt(s.Addr())
}

// URLAt is URL with other hosts, HOST:PORT and commas, in the place of the server.
func (s *PostgresServer) URLAt(hosts string) string {
	query := "sslmode=disable"
	if s.opts.TLS != nil {
		query = "sslmode=verify-full&sslrootcert=" + url.QueryEscape(s.opts.TLS.CA)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", s.Password), Host: hosts, Path: "/" + s.database, RawQuery: query}
	return u.String()
}

// Socket returns the folder with its socket, which is a host to PostgreSQL's clients.
func (s *PostgresServer) Socket() string { return s.dir }

// Kill ends the server and the processes of its connections without a chance to say goodbye, and returns when they are gone.
func (s *PostgresServer) Kill() {
	if s.Ended() {
		return
	}
	connections, _ := s.freeze() // one that is gone has none
	for _, pid := range connections {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.Process.Kill()
	for _, pid := range connections {
		for Runs(pid) {
			time.Sleep(time.Millisecond) // between two questions
		}
	}
}

// freeze stops the server itself, so that it starts no more processes and their numbers stay theirs, and returns those.
func (s *PostgresServer) freeze() ([]int, error) {
	err := s.Process.Signal(syscall.SIGSTOP)
	return Children(s.PID()), err
}

// Signal sends a signal, or fails because the process is gone. What stops a process, and lets it go on, reaches those of the
// connections too: they would serve their clients without the first one.
func (s *PostgresServer) Signal(sig syscall.Signal) error {
	switch sig {
	case syscall.SIGSTOP:
		connections, err := s.freeze()
		for _, pid := range connections {
			_ = syscall.Kill(pid, sig) // one that has just ended serves nobody
		}
		for _, pid := range connections {
			awaitFrozen(pid)
		}
		return err
	case syscall.SIGCONT:
		for _, pid := range Children(s.PID()) {
			_ = syscall.Kill(pid, sig)
		}
	}
	return s.Process.Signal(sig)
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
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// Cont is the opposite of Stop.
func (s *PostgresServer) Cont(t testing.TB) {
	t.Helper()
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func (s *PostgresServer) wipe(t testing.TB) {
	t.Helper()
	s.free()
	s.server.wipe(t)
}
