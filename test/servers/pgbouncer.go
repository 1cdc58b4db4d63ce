package servers

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// PgBouncerServer is one running PgBouncer before a PostgreSQL server. It keeps nothing.
type PgBouncerServer struct {
	*server
	behind *PostgresServer
}

// PgBouncer starts a PgBouncer that pools transactions. It asks for the names and passwords of its server's owner, and knows nobody else.
func PgBouncer(t testing.TB, server *PostgresServer) *PgBouncerServer {
	t.Helper()
	s := &PgBouncerServer{behind: server}
	s.server = newServer(t, "pgbouncer", At{}, nil, s)
	lines := []string{
		"[databases]", fmt.Sprintf("* = host=%s port=%d", server.place.host(), server.Port),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", s.Port), "unix_socket_dir =",
		"auth_type = scram-sha-256", "auth_file = " + writeFile(t, s.dir, "users.txt", fmt.Sprintf("%q %q\n", "postgres", server.Password)),
		"admin_users = postgres", "pool_mode = transaction",
		"server_login_retry = 0", // it asks a server that is back at once
	}
	writeFile(t, s.dir, "pgbouncer.ini", strings.Join(lines, "\n")+"\n")
	give(t, s.dir, s.as)
	s.start(t)
	return s
}

func (s *PgBouncerServer) command(testing.TB) []string { return []string{"pgbouncer.ini"} }

// Answers asks the server behind it whether it serves its clients.
func (s *PgBouncerServer) Answers() error {
	_, err := askPostgres(statusTimeout, s.URL(), place{}, "SELECT 1")
	return err
}

// URL returns the address of the server's database, with the name and the password of the server's owner.
func (s *PgBouncerServer) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", s.behind.Password), Host: s.Addr(), Path: "/" + s.behind.database, RawQuery: "sslmode=disable",
	}
	return u.String()
}
