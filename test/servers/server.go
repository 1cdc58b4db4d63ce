package servers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// kind is a row of the table of what tests ask for by Require.
type kind struct {
	programs []string // that must be there; of a server the first one is what runs
	scheme   string   // of a backend's URL
	accounts []string // one of which a server runs as that refuses root, the first that there is
	quick    bool     // part of the short run (go test -short, which is make test): Debian has it
}

// catalog are by their names in LEADERRUN_TEST_REQUIRE. PostgreSQL and ZooKeeper take a second of a processor to start, and do so in the
// short run only where their options say so.
var catalog = map[string]kind{
	"redis":      {programs: []string{"redis-server", "redis-cli"}, quick: true},
	"sentinel":   {programs: []string{"redis-sentinel", "redis-server"}},
	"cluster":    {programs: []string{"redis-server", "redis-cli"}},
	"etcd":       {programs: []string{"etcd", "etcdctl"}, scheme: "etcd"},
	"consul":     {programs: []string{"consul"}, scheme: "consul"},
	"kubernetes": {programs: []string{"kube-apiserver", "etcd"}},
	"zookeeper":  {programs: []string{"java"}, scheme: "zk", quick: true},
	"pgbouncer":  {programs: []string{"pgbouncer", "postgres"}, accounts: []string{"postgres", "nobody"}},
	"s3":         {programs: []string{"versitygw"}},
	"postgres":   {programs: []string{"postgres", "initdb", "psql"}, accounts: []string{"postgres", "nobody"}, quick: true},
	"mariadb":    {programs: []string{"mariadbd", "mariadb-install-db", "mariadb"}, accounts: []string{"mysql", "nobody"}},
	"sqlite3":    {programs: []string{"sqlite3"}, quick: true},
	"cron":       {programs: []string{"cron"}, quick: true},
	"netns":      {programs: []string{"ip", "nft"}, quick: true},
	"faketime":   {quick: true},
	"dpkg":       {programs: []string{"dpkg", "dpkg-deb", "unshare", "nsenter"}},
	"rpm":        {programs: []string{"rpm"}},
	"systemd":    {programs: []string{"systemd-analyze"}},
	"man":        {programs: []string{"man", "groff"}},
	"shells":     {programs: []string{"bash", "zsh", "fish"}},
}

// server is what the servers of all catalog have in common: it is embedded in each of them.
type server struct {
	*Process
	Name string // among the members of a set
	Port int    // of clients

	kind  kind
	of    variant
	place place
	dir   string              // for its configuration and what it writes
	as    *syscall.Credential // nil: it runs as the tests do
}

// variant is what a kind of server does in its own way. The first two it must know; for the others server has what fits most.
type variant interface {
	command(t testing.TB) []string // the words after the program
	Answers() error                // says whether it serves its clients

	initialize(t testing.TB) // makes the folder with the data
	run(t testing.TB)
	await(t testing.TB) // waits until it is ready
	wipe(t testing.TB)  // takes the data of one that does not run
	Kill()
}

// newServer prepares a server of a kind, which does not run yet and ends with the test.
func newServer(t testing.TB, name string, at At, certs *Certificates, of variant) *server {
	t.Helper()
	Require(t, name)
	k := catalog[name]
	s := &server{Name: name, Port: FreePort(t), kind: k, of: of, place: place{At: at}}
	if k.accounts != nil {
		s.as = unprivileged(t, name, k.accounts...)
	}
	s.dir = dirFor(t, s.as)
	if certs != nil {
		s.place.tls = certs.Client()
	}
	t.Cleanup(func() { of.Kill() })
	return s
}

// start runs a server that is alone, and waits until it is ready.
func (s *server) start(t testing.TB) {
	t.Helper()
	s.of.run(t)
	s.of.await(t)
}

// run starts the process, with new data if there are none. A member of a set is not ready before most of the set runs.
func (s *server) run(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(s.Data()); errors.Is(err, os.ErrNotExist) {
		s.of.initialize(t)
	}
	words, as := append([]string{program(t, s.kind.programs[0])}, s.of.command(t)...), s.as
	if len(s.place.Env) > 0 {
		words = slices.Concat([]string{"env"}, s.place.Env, words)
	}
	if s.place.Netns != "" && as != nil { // only root may enter a namespace
		words = slices.Concat([]string{
			"setpriv", "--reuid", fmt.Sprint(as.Uid), "--regid", fmt.Sprint(as.Gid), "--clear-groups",
			"--pdeathsig", "KILL", // of which the kernel forgets on the way to another user
		}, words)
		as = nil
	}
	words = s.place.words(words...)
	s.Process = launchAs(t, as, s.dir, words[0], words[1:]...)
}

func (s *server) await(t testing.TB) {
	t.Helper()
	s.ready(t, s.kind.programs[0], s.of.Answers)
}

func (s *server) initialize(t testing.TB) {
	t.Helper()
	if err := os.Mkdir(s.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (s *server) wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(s.Data()); err != nil {
		t.Fatal(err)
	}
}

// Restart kills the server and starts it again, with its data or without. It waits until the server is ready, so of a set most
// members must run.
func (s *server) Restart(t testing.TB, keepData bool) {
	t.Helper()
	s.of.Kill()
	if !keepData {
		s.of.wipe(t)
	}
	s.start(t)
}

// finish runs one of the server's programs to its end.
func (s *server) finish(t testing.TB, name string, args ...string) {
	t.Helper()
	p := launchAs(t, s.as, s.dir, program(t, name), args...)
	t.Cleanup(p.Kill)
	p.succeed(t, name)
}

// Data returns the folder with its data.
func (s *server) Data() string { return filepath.Join(cmp.Or(s.place.Dir, s.dir), "data") }

// Addr returns host and port for clients.
func (s *server) Addr() string { return s.place.addr(s.Port) }

// URL returns a backend URL, without credentials.
func (s *server) URL() string { return s.place.url(s.kind.scheme, s.Addr()) }

// http returns the URL of a server that speaks HTTP.
func (s *server) http() string { return s.place.url("http", s.Addr()) }

func (s *server) base() *server { return s }
