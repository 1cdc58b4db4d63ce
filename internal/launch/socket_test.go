package launch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	processtree "github.com/leaderrun/leaderrun/internal/supervise/tree"
	"github.com/leaderrun/leaderrun/runner"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// openSocket makes a socket as a run does, and returns its path.
func openSocket(t *testing.T, ttl time.Duration) (*Socket, string) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	s := NewSocket(func(text, _ string) { t.Error(text) })
	t.Cleanup(func() {
		select {
		case <-s.over:
		default:
			s.Close()
		}
	})
	vars := s.Env(func(backends.Grant) []string { return []string{"A=b"} })(grantOf(ttl))
	path, ok := strings.CutPrefix(vars[len(vars)-1], cli.SocketVariable+"=")
	if len(vars) != 2 || vars[0] != "A=b" || !ok {
		t.Fatalf("variables: %q", vars)
	}
	return s, path
}

// shortDir is a directory whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lr") //nolint:usetesting // its name is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func grantOf(ttl time.Duration) backends.Grant {
	return backends.Grant{Claim: backends.Claim{Job: "j"}, Token: 5, TTL: ttl}
}

// answer answers every check like a runner.
func (s *Socket) answer(t *testing.T, standing runner.Standing) {
	t.Helper()
	go func() {
		for {
			select {
			case check := <-s.Asked:
				check.Answer <- standing
			case <-s.over:
				return
			}
		}
	}()
}

// isImpatient makes a time short for a test that waits for it to be over.
func isImpatient(t *testing.T, limit *time.Duration) {
	t.Helper()
	usual := *limit
	*limit = time.Second / 2
	t.Cleanup(func() { *limit = usual })
}

// get asks like curl.
func get(t *testing.T, path, method, url string) (status int, body string) {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestSocketSpeaksHTTP(t *testing.T) {
	s, path := openSocket(t, 15*time.Second)
	s.answer(t, runner.Standing{Leading: true, Left: 9 * time.Second})
	for _, c := range []struct {
		method, url string
		status      int
		body        string
	}{
		{"GET", "http://leaderrun/check", 200, `{"leading":true,"left_ms":9000,"job":"j","token":5}` + "\n"},
		{"GET", "http://leaderrun/", 404, "Not Found\n"},
		{"POST", "http://leaderrun/check", 405, "Method Not Allowed\n"},
		{"HEAD", "http://leaderrun/check", 405, ""},
		{"OPTIONS", "http://leaderrun/check", 405, "Method Not Allowed\n"},
	} {
		if status, body := get(t, path, c.method, c.url); status != c.status || body != c.body && c.body != "" {
			t.Errorf("%s %s: %d %q", c.method, c.url, status, body)
		}
	}
	answer, err := AskRun(t.Context(), path, waits.Patience)
	if err != nil || !answer.Leading || *answer.Left != 9000 || answer.Token != 5 {
		t.Errorf("check: %+v, %v", answer, err)
	}
}

func TestSocketSaysThatTheRunDoesNotLead(t *testing.T) {
	s, path := openSocket(t, 15*time.Second)
	s.answer(t, runner.Standing{Err: backends.ErrLost})
	status, body := get(t, path, "GET", "http://leaderrun/check")
	if want := `{"leading":false,"job":"j","token":5,"reason":"the lease is not ours any more"}` + "\n"; status != 409 || body != want {
		t.Errorf("%d %s", status, body)
	}
	if answer, err := AskRun(t.Context(), path, waits.Patience); err != nil || answer.Leading {
		t.Errorf("check: %+v, %v", answer, err)
	}
}

// Hazard: the user of a job, who may connect, learns where the backend is and what it says. That is for the log, once however often he
// asks.
func TestSocketDoesNotTellWhatTheBackendSays(t *testing.T) {
	s, path := openSocket(t, 15*time.Second)
	var logged []string
	s.warn = func(text, _ string) { logged = append(logged, text) }
	s.answer(t, runner.Standing{Err: errors.New("nobody knows"), Cause: errors.New("dial tcp 10.9.8.7:6379")})
	for range 3 {
		status, body := get(t, path, "GET", "http://leaderrun/check")
		if want := `{"leading":false,"job":"j","token":5,"reason":"nobody knows"}` + "\n"; status != 409 || body != want {
			t.Errorf("%d %s", status, body)
		}
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "10.9.8.7:6379") {
		t.Errorf("the log has %q", logged)
	}
}

// The hazard: a backend that does not answer, a command that waits for ever, or takes silence for a yes.
func TestNoAnswerIsNoLease(t *testing.T) {
	_, path := openSocket(t, 600*time.Millisecond)
	if limit := AskLimit(path); limit != 300*time.Millisecond {
		t.Errorf("%s is waited for %v", path, limit)
	}
	answer, err := AskRun(t.Context(), path, waits.Patience)
	if err != nil || answer.Leading || answer.Reason == "" {
		t.Errorf("nobody answered: %+v, %v", answer, err)
	}

	// A wrapper that is stopped: its socket takes the connection, and nothing comes.
	stopped := filepath.Join(shortDir(t), "s")
	listener, err := net.Listen("unix", stopped)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if answer, err := AskRun(t.Context(), stopped, 50*time.Millisecond); err == nil || answer.Leading {
		t.Errorf("stopped: %+v, %v", answer, err)
	}
	if _, err := AskRun(t.Context(), stopped+"-gone", waits.Patience); err == nil {
		t.Error("there is no socket")
	}
}

func TestAnswersThatMakeNoSenseAreNoLease(t *testing.T) {
	for _, reply := range []string{
		"", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n{\"leading\":true}",
		"HTTP/1.1 409 Conflict\r\n\r\n{\"leading\":true,\"left_ms\":5}", "HTTP/1.1 500 No\r\n\r\n{\"leading\":true,\"left_ms\":5}",
	} {
		path := filepath.Join(shortDir(t), "s")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				_, _ = io.CopyN(io.Discard, conn, 10)
				_, _ = io.WriteString(conn, reply)
				_ = conn.Close()
			}
		}()
		if answer, err := AskRun(t.Context(), path, waits.Patience); err == nil && answer.Leading {
			t.Errorf("%q is taken for %+v", reply, answer)
		}
		_ = listener.Close()
	}
}

// The hazard: askers who say nothing, or too much, keep others from asking, or the run from ending.
func TestSlowAskersAreSentAway(t *testing.T) {
	isImpatient(t, &PatienceToRead)
	s, path := openSocket(t, 15*time.Second)
	s.answer(t, runner.Standing{Leading: true, Left: time.Second})
	for i := range 2 * maxAskers {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if i%2 == 0 {
			go func() { _, _ = io.Copy(conn, endless{}) }()
		}
	}
	// Who has waited for its turn may be taken for slow when this machine stands still.
	servers.Eventually(t, "an answer behind slow askers", func() bool {
		answer, err := AskRun(t.Context(), path, waits.Patience)
		return err == nil && answer.Leading
	})
}

// The hazard: a place that is not given back, until nobody is answered any more; a bound that many askers break.
func TestManyAskersWaitForTheirTurn(t *testing.T) {
	s, path := openSocket(t, time.Hour)
	leads := make(chan bool)
	const askers = 3 * maxAskers
	for range askers {
		go func() {
			answer, err := AskRun(t.Context(), path, waits.Patience)
			leads <- err == nil && answer.Leading
		}()
	}
	var served []runner.Check
	for range askers {
		if len(served) == maxAskers {
			served[0].Answer <- runner.Standing{Leading: true}
			served = served[1:]
		}
		served = append(served, <-s.Asked)
		if len(s.slots) > maxAskers || len(s.slots) < len(served) {
			t.Errorf("%d askers have %d places", len(served), len(s.slots))
		}
	}
	for _, check := range served {
		check.Answer <- runner.Standing{Leading: true}
	}
	for range askers {
		if !<-leads {
			t.Error("one was not answered")
		}
	}
}

// A yes comes from the run alone, and not from what a server of HTTP answers by itself.
func TestSocketSaysYesToNothingElse(t *testing.T) {
	_, path := openSocket(t, 15*time.Second)
	for _, request := range []string{
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /check/../healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET //check HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT /check HTTP/1.1\r\nHost: x\r\n\r\n", "nonsense\r\n\r\n",
		"GET /check HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2*MaxQuestion) + "\r\n\r\n",
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(conn)
		if _, status, _ := strings.Cut(string(reply), " "); err != nil || !strings.HasPrefix(status, "4") {
			t.Errorf("%.40q: %q, %v", request, reply, err)
		}
		_ = conn.Close()
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestSocketIsPrivateAndLeavesNothing(t *testing.T) {
	s, path := openSocket(t, 15*time.Second)
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again := s.Env(func(backends.Grant) []string { return nil })(grantOf(time.Second))
	if len(again) != 1 || again[0] != cli.SocketVariable+"="+path {
		t.Errorf("the next start of the command has %q", again)
	}

	conn, err := net.Dial("unix", path) // asks while the run ends
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left over: %v", dir, err)
	}
	if answer := s.check(); answer.Leading || answer.Reason != "the run is over" {
		t.Errorf("after the end: %+v", answer)
	}
	left, err := os.ReadDir(os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// A run that was skipped made nothing, and closing it is not an error.
func TestSocketOfASkippedRun(t *testing.T) {
	dir := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	s := NewSocket(func(text, _ string) { t.Error(text) })
	s.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A directory with too long a name, or none to write to, is passed over; where there is none, the run has one warning
// and no socket.
func TestSocketFindsADirectory(t *testing.T) {
	long := filepath.Join(shortDir(t), strings.Repeat("x", longestSocketPath))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", long)
	t.Setenv("TMPDIR", filepath.Join(shortDir(t), "missing"))
	s := NewSocket(func(text, _ string) { t.Error(text) })
	vars := s.Env(func(backends.Grant) []string { return nil })(grantOf(15 * time.Second))
	if len(vars) != 1 || !strings.HasPrefix(vars[0], cli.SocketVariable+"=/tmp/leaderrun.") {
		t.Errorf("variables: %q", vars)
	} else if path := valueIn(vars, cli.SocketVariable); !strings.HasPrefix(path, "/tmp/") {
		t.Errorf("the guardian is told of %q", path)
	}
	s.Close()

	var warnings []string
	s = NewSocket(func(text, _ string) { warnings = append(warnings, text) })
	s.parents = []string{long, filepath.Join(long, "missing")}
	for range 2 {
		if vars := s.Env(func(backends.Grant) []string { return []string{"A=b"} })(grantOf(time.Second)); len(vars) != 1 {
			t.Errorf("variables: %q", vars)
		}
	}
	s.Close()
	if len(warnings) != 1 {
		t.Errorf("warnings: %q", warnings)
	}
}

// What a standby has made ahead is what its command finds, unless it would be wrong by then.
func TestSocketOfAStandby(t *testing.T) {
	for name, c := range map[string]struct {
		granted time.Duration
		between func(t *testing.T, path string)
		same    bool
	}{
		"as it was made":         {15 * time.Second, func(*testing.T, string) {}, true},
		"another TTL is granted": {20 * time.Second, func(*testing.T, string) {}, false},
		"somebody has removed it": {15 * time.Second, func(t *testing.T, path string) {
			t.Helper()
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			home := shortDir(t)
			t.Setenv("XDG_RUNTIME_DIR", home)
			s := NewSocket(func(text, _ string) { t.Error(text) })
			s.Ahead(15 * time.Second)
			made := s.listener.Addr().String()
			c.between(t, made)
			s.Ahead(15 * time.Second)
			vars := s.Env(func(backends.Grant) []string { return nil })(grantOf(c.granted))
			path := strings.TrimPrefix(vars[0], cli.SocketVariable+"=")
			if (path == made) != c.same {
				t.Errorf("made %s, told %s", made, path)
			}
			if !strings.HasSuffix(path, answerLimit(c.granted).Round(time.Millisecond).String()) {
				t.Errorf("told %s for a TTL of %v", path, c.granted)
			}
			s.answer(t, runner.Standing{Leading: true, Left: time.Second})
			if answer, err := AskRun(t.Context(), path, waits.Patience); err != nil || !answer.Leading {
				t.Errorf("check: %+v, %v", answer, err)
			}
			s.Close()
			s.Ahead(15 * time.Second) // the event of a standby may come late
			// While one is made, who looks for abandoned ones may take another away, and is still at it.
			servers.Eventually(t, "nothing is left behind", func() bool { left, err := os.ReadDir(home); return err == nil && len(left) == 0 })
		})
	}
}

// What cleans up /tmp takes the daemon's directory away once it is old. The next run has one again, and not another's.
func TestSocketHomeThatWasRemoved(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", shortDir(t))
	for name, spoil := range map[string]func(dir string) error{
		"removed":                       os.Remove,
		"a file in its place":           func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) },
		"a link in its place":           func(dir string) error { return errors.Join(os.Remove(dir), os.Symlink("/tmp", dir)) },
		"open for all":                  func(dir string) error { return os.Chmod(dir, 0o777) },
		"made by another in its place ": func(dir string) error { return os.Chown(dir, 65534, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			home := &socketHome{}
			defer home.Remove()
			first, _, err := home.place()
			if err != nil {
				t.Fatal(err)
			}
			if dir, number, err := home.place(); dir != first || number != 2 || err != nil {
				t.Errorf("the second socket is number %d in %s, not in %s: %v", number, dir, first, err)
			}
			if err := spoil(first); errors.Is(err, os.ErrPermission) {
				servers.Lack(t, "root", "only root gives directories away")
			} else if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(first)
			s := NewSocket(func(text, _ string) { t.Error(text) })
			s.home = home
			vars := s.Env(func(backends.Grant) []string { return nil })(grantOf(time.Minute))
			defer s.Close()
			if len(vars) != 1 || filepath.Dir(strings.TrimPrefix(vars[0], cli.SocketVariable+"=")) == first {
				t.Errorf("variables %q, the directory was %s", vars, first)
			}
		})
	}
}

// What killed runs have left is removed by a later one, and nothing else.
func TestSocketsThatNobodyHoldsAreRemoved(t *testing.T) {
	parent := shortDir(t)
	folder := func(name string, keep bool) string {
		dir := filepath.Join(parent, processtree.Prefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketPrefix+"1s"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if keep {
			if err := os.WriteFile(filepath.Join(dir, "something else"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	old, mixed := folder("old", false), folder("mixed", true)
	s := NewSocket(func(text, _ string) { t.Error(text) })
	s.parents = []string{parent}
	vars := s.Env(func(backends.Grant) []string { return nil })(grantOf(15 * time.Second))
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(old); err != nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("it stays")
		}
	}
	processtree.RemoveAbandoned(parent, removeSockets) // a whole look
	if _, err := os.Lstat(filepath.Join(mixed, "something else")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(valueIn(vars, cli.SocketVariable)); err != nil {
		t.Error("the socket of a run that lives was removed:", err)
	}
	s.Close()
}

// A file system that does not answer holds up neither the command nor the end of its run: here it is another run of the same
// daemon that waits for it.
func TestADirectoryThatHangsHoldsUpNoRun(t *testing.T) {
	isImpatient(t, &PatienceToMake)
	home := &socketHome{}
	home.mu.Lock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		warnings := 0
		s := NewSocket(func(string, string) { warnings++ })
		s.home = home
		env := s.Env(func(backends.Grant) []string { return nil })
		for range 2 {
			if vars := env(grantOf(time.Second)); len(vars) != 0 {
				t.Errorf("variables: %q", vars)
			}
		}
		if warnings != 1 {
			t.Errorf("%d warnings of a command without a socket", warnings)
		}
		s.Close()
		home.Remove()
		s = NewSocket(func(string, string) {})
		s.home = home
		ahead := make(chan struct{})
		go func() {
			defer close(ahead)
			s.Ahead(time.Second)
		}()
		for s.making.TryLock() { // until that hangs
			s.making.Unlock()
		}
		s.Close()
		home.mu.Unlock()
		<-ahead
	}()
	select {
	case <-over:
	case <-time.After(waits.Patience):
		t.Fatal("the run hangs with its directory")
	}
}

// Runs that start at the same time remove what nobody holds: also a directory that is just being made.
func TestDirectoryIsMadeWhileOthersTidyUp(t *testing.T) {
	t.Parallel()
	parent := shortDir(t)
	over, tidied := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(tidied)
		for {
			select {
			case <-over:
				return
			default:
				processtree.RemoveAbandoned(parent, removeSockets)
			}
		}
	}()
	for range 100 {
		dir, err := privateDirectory(parent, 20)
		if err == nil {
			_, err = os.Lstat(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	<-tidied
}

// Whoever owns a folder above the socket can put another one in its place, and tell a run that has lost its lease that it leads.
func TestSocketIsNotBelowAnothersFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		servers.Lack(t, "root", "only root can give a folder away")
	}
	theirs := t.TempDir()
	if err := os.Chown(theirs, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	if dir, err := privateDirectory(theirs, 20); err == nil {
		t.Errorf("made %s", dir)
	}
}

func TestSocketShowsWhatNobodySees(t *testing.T) {
	socket := NewSocket(nil)
	socket.grant.Claim.Job = "a\u202eb"
	close(socket.over)
	reply := httptest.NewRecorder()
	socket.ServeHTTP(reply, httptest.NewRequestWithContext(t.Context(), http.MethodGet, checkPath, nil))
	if got := reply.Body.String(); !strings.Contains(got, `a\u202eb`) {
		t.Errorf("%q", got)
	}
}
