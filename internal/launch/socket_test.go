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
