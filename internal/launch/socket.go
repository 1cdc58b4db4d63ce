package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/duration"
	"github.com/leaderrun/leaderrun/internal/ownership"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
	processtree "github.com/leaderrun/leaderrun/internal/supervise/tree"
	"github.com/leaderrun/leaderrun/runner"
)

// The protocol of the socket, and its bounds.
const (
	checkPath    = "/check"
	socketPrefix = "answers-in-" // and a duration: whoever asks knows for how long, also when nobody answers
	maxAskers    = 16            // at a time; more wait in the kernel's queue
	MaxQuestion  = 8 << 10       // bytes of a request's header, or of an answer
)

// Tests have more patience where nobody is slow on purpose.
var (
	PatienceToRead  = time.Second // with a slow asker
	PatienceToWrite = time.Second
	PatienceToMake  = time.Second // at least, with a file system
)

// longestSocketPath is what the kernel takes as the name of a socket.
const longestSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// Socket is where the command of a run asks whether the run still leads. It speaks HTTP, one request a
// connection, and only to the command's user. A run goes on without it where it cannot be made.
type Socket struct {
	Asked   chan runner.Check            // for the runner to answer
	parents []string                     // where its directory may be, the best first
	over    chan struct{}                // closed when the run is
	home    *socketHome                  // instead, where a daemon has many runs
	owner   func() *supervise.Credential // with home: whose command it is; nil, or no credential: this user's
	slots   chan struct{}                // one for each asker who is being served
	warn    func(text, hint string)

	mu      sync.Mutex
	grant   backends.Grant // of the run that is asked about
	doubted bool           // the last check was answered with a no that the backend had a part in

	silent bool // the file system did not answer: the run goes on without the socket. env's own

	making   sync.Mutex // held while a file system is asked, which may not answer: nobody waits for it without a limit
	tried    bool
	listener net.Listener // nil: there is none
	limit    time.Duration
	dir      string
}

// CheckAnswer is what a check says. The names are a contract.
type CheckAnswer struct {
	Leading bool   `json:"leading"`
	Left    *int64 `json:"left_ms,omitempty"` // of the lease's validity on this host's clock
	Job     string `json:"job"`
	Token   int64  `json:"token"`
	Reason  string `json:"reason,omitempty"` // why not
}

// NewSocket makes one that is not open yet. warn tells why it cannot be opened, and the remedy.
func NewSocket(warn func(text, hint string)) *Socket {
	return &Socket{
		Asked: make(chan runner.Check), over: make(chan struct{}), slots: make(chan struct{}, maxAskers), warn: warn,
		parents: socketParents(),
	}
}

// Ahead makes the socket for a standby, which has the time now, and not when the job is free.
func (s *Socket) Ahead(ttl time.Duration) {
	s.making.Lock()
	defer s.making.Unlock()
	if !s.tried && s.listener == nil {
		_ = s.listen(answerLimit(ttl)) // it is tried again when the command starts
	}
}

// Env adds the socket's name to the variables of a command. But for a standby, the socket is made when the first command
// is about to start: a run that is skipped has none.
func (s *Socket) Env(variables func(backends.Grant) []string) func(backends.Grant) []string {
	return func(g backends.Grant) []string {
		vars := variables(g)
		s.mu.Lock()
		s.grant = g
		s.mu.Unlock()
		if s.silent {
			return vars
		}
		limit := answerLimit(g.TTL)
		var address string
		err := within(max(limit, PatienceToMake), func() (err error) {
			address, err = s.address(limit)
			return err
		})
		s.silent = errors.Is(err, errSilent)
		switch {
		case err != nil:
			s.warn("the command cannot ask whether its run still leads: "+cli.Reason(err), "it needs a directory to write to: XDG_RUNTIME_DIR, TMPDIR or /tmp")
		case address != "":
			vars = append(vars, cli.SocketVariable+"="+address)
		}
		return vars
	}
}

// address makes the socket, if that was not tried, and returns its name; "": there is none.
func (s *Socket) address(limit time.Duration) (string, error) {
	s.making.Lock()
	defer s.making.Unlock()
	var err error
	if !s.tried {
		s.tried = true
		err = s.listenOnce(limit)
	}
	if s.listener == nil {
		return "", err
	}
	return s.listener.Addr().String(), err
}

// answerLimit is how long an answer may take: as long as a renewal.
func answerLimit(ttl time.Duration) time.Duration { return ttl / 6 }

// listenOnce makes the socket, unless that was done ahead. One whose name says another time than the lease that was
// granted, or that somebody has removed meanwhile, is made anew. It needs s.making.
func (s *Socket) listenOnce(limit time.Duration) error {
	if s.listener != nil {
		_, err := os.Lstat(s.listener.Addr().String())
		if err == nil && s.limit == limit {
			return nil
		}
		if err := s.remove(); err != nil {
			return err
		}
	}
	return s.listen(limit)
}

// listen makes the socket in a directory that is only for this user. It needs s.making.
func (s *Socket) listen(limit time.Duration) error {
	s.limit = limit
	name := socketPrefix + limit.Round(time.Millisecond).String()
	if s.home != nil {
		dir, number, err := s.home.place()
		if err != nil {
			return err
		}
		return s.listenAt(filepath.Join(dir, fmt.Sprintf("%d-%s", number, name)))
	}
	failed := errNoParent
	for _, parent := range s.parents {
		dir, err := privateDirectory(parent, len(name))
		if err == nil {
			if err = s.listenAt(filepath.Join(dir, name)); err == nil {
				s.dir = dir
				return nil
			}
			_ = os.RemoveAll(dir)
		}
		failed = err
	}
	return failed
}

func (s *Socket) listenAt(path string) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if err := s.giveTo(path); err != nil {
		_ = listener.Close()
		return err
	}
	s.listener = listener
	panics.Go(func() { _ = s.server().Serve(newQueue(listener, s.slots)) }) // it ends with the listener; who is being served still is
	return nil
}

// giveTo lets the user of the command ask, and nobody else: to connect takes the right to write.
func (s *Socket) giveTo(path string) error {
	if s.owner == nil {
		return nil
	}
	as := s.owner()
	if as == nil {
		return nil
	}
	return errors.Join(os.Chmod(path, 0o600), os.Lchown(path, int(as.UID), int(as.GID)))
}

var errNoParent = errors.New("no directory has a name that is short enough")

// socketParents are where the directory of a socket may be, the best first. systemd gives a service one in memory by
// RUNTIME_DIRECTORY, a session has XDG_RUNTIME_DIR.
func socketParents() []string {
	service, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	return []string{service, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"}
}

// privateDirectory makes a directory that is only for this user, in which the name of a socket may have so many bytes.
func privateDirectory(parent string, room int) (string, error) {
	const random = 10 // digits at most that MkdirTemp appends
	if !filepath.IsAbs(parent) || len(parent)+len("/"+processtree.Prefix+"/")+random+room > longestSocketPath {
		return "", errNoParent
	}
	if err := ownership.CheckFolder(parent); err != nil { // its owner could put another socket there, and answer in our place
		return "", err
	}
	const tries = 100 // for who starts at the same time may take it for abandoned before it is held
	for left := tries; ; left-- {
		dir, err := os.MkdirTemp(parent, processtree.Prefix) // 0700
		if err != nil {
			return "", err
		}
		_, err = processtree.Hold(dir) // until this process ends
		if err == nil {
			panics.Go(func() { processtree.RemoveAbandoned(parent, removeSockets) })
			return dir, nil
		}
		if left == 0 || !errors.Is(err, syscall.ENOENT) {
			return "", err
		}
	}
}

// removeSockets removes a directory in which nothing is but sockets of ours.
func removeSockets(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type() == os.ModeSocket && strings.Contains(e.Name(), socketPrefix) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// socketHome is the directory of the sockets of many runs: to make one is more work than to make a socket. It is made
// when the first run needs it, and again when somebody has removed it: what is old in /tmp does not last.
type socketHome struct {
	shared bool       // the commands are other users', who may pass through it, and not see what is in it
	mu     sync.Mutex // held while a file system is asked: nobody waits for it without a limit
	dir    string
	number int
}

// place returns the directory, and a number that no other socket in it has.
func (h *socketHome) place() (dir string, number int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir != "" && !h.isOurs() {
		h.dir = ""
	}
	for _, parent := range socketParents() {
		if h.dir != "" {
			break
		}
		if h.shared && parent == os.Getenv("XDG_RUNTIME_DIR") { // nobody else passes there
			continue
		}
		const digits = 10
		h.dir, err = privateDirectory(parent, digits+len(socketPrefix)+len("-1000h0m0.000s"))
		if err == nil && h.shared {
			err = os.Chmod(h.dir, 0o711)
		}
	}
	h.number++
	return h.dir, h.number, err
}

// isOurs says whether the directory is still there, and still only for this user: another one may have taken its name.
func (h *socketHome) isOurs() bool {
	others := os.FileMode(0o077)
	if h.shared {
		others = 0o066
	}
	info, err := os.Lstat(h.dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&others != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// Remove removes the directory, when no run is left. It waits only so long for the file system.
func (h *socketHome) Remove() {
	_ = within(PatienceToMake, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.dir == "" || !h.isOurs() {
			return nil
		}
		return os.RemoveAll(h.dir)
	})
}

// Close removes the socket. What is still being asked is answered: the run is over. A file system that does not answer holds it
// up for a second; what comes of it later is removed then.
func (s *Socket) Close() {
	close(s.over)
	err := within(PatienceToMake, func() error {
		s.making.Lock()
		defer s.making.Unlock()
		s.tried = true
		return s.remove()
	})
	if err != nil {
		s.warn("the socket of the run is left over: "+cli.Reason(err), "")
	}
}

// remove removes the socket, if there is one. It needs s.making.
func (s *Socket) remove() error {
	if s.listener == nil {
		return nil
	}
	_ = s.listener.Close() // which removes the socket
	s.listener = nil
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// queue is a listener whose clients wait in the kernel while many are being served.
type queue struct {
	net.Listener
	slots  chan struct{} // one for each client that is being served
	closed chan struct{}
	close  func() error
}

func newQueue(listener net.Listener, slots chan struct{}) *queue {
	q := &queue{Listener: listener, slots: slots, closed: make(chan struct{})}
	q.close = sync.OnceValue(func() error {
		close(q.closed)
		return listener.Close()
	})
	return q
}

// Close also ends an Accept that waits for a client to go: a server closes its connections only when its Accept has returned.
func (q *queue) Close() error { return q.close() }

// ServeSome is server.Serve of so many connections at a time.
func ServeSome(server *http.Server, listener net.Listener, most int) error {
	slots := make(chan struct{}, most)
	server.ConnState = frees(slots)
	return server.Serve(newQueue(listener, slots))
}

// frees makes what a server of a queue calls when a connection changes. One that has become something else is no longer the server's.
func frees(slots chan struct{}) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			<-slots
		}
	}
}

// Accept ends when the socket is closed, and not when the process is out of descriptors, which passes.
func (q *queue) Accept() (net.Conn, error) {
	const pause = 100 * time.Millisecond
	select {
	case q.slots <- struct{}{}:
	case <-q.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := q.Listener.Accept()
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, net.ErrClosed) {
			<-q.slots
			return nil, err
		}
		time.Sleep(pause)
	}
}

// server answers one request a connection. Nobody keeps one for longer than it takes: the deadlines are absolute.
func (s *Socket) server() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler: s, ReadTimeout: PatienceToRead, WriteTimeout: PatienceToWrite, MaxHeaderBytes: MaxQuestion, Protocols: &protocols,
		DisableGeneralOptionsHandler: true, // a 200 would look like a yes
		ConnState:                    frees(s.slots),
	}
	server.SetKeepAlivesEnabled(false)
	return server
}

// ServeHTTP answers a request.
func (s *Socket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer panics.Catch()
	switch {
	case r.URL.Path != checkPath:
		http.Error(w, http.StatusText(http.StatusNotFound), http.StatusNotFound)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	answer := s.check()
	object, _ := json.Marshal(answer) // which cannot fail
	// The answer took its time: that to write it begins now.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(PatienceToWrite))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !answer.Leading {
		w.WriteHeader(http.StatusConflict)
	}
	_, _ = w.Write(append(cli.VisibleJSON(object), '\n'))
}

// tellCause tells what the backend says, in the log alone, and once until it says yes again: who asks may be the user of a job, who
// is not to learn where the backend is, and may ask as often as he likes.
func (s *Socket) tellCause(of runner.Standing) {
	s.mu.Lock()
	told := s.doubted
	s.doubted = of.Cause != nil
	s.mu.Unlock()
	if of.Cause != nil && !told {
		s.warn("the command asked whether its run still leads, and nobody can tell: "+of.Cause.Error(), "")
	}
}

// check asks the runner, which asks the backend. No answer in time means that nobody can tell.
func (s *Socket) check() CheckAnswer {
	s.mu.Lock()
	grant := s.grant
	s.mu.Unlock()
	answer := CheckAnswer{Job: grant.Claim.Job, Token: grant.Token}
	limit := time.NewTimer(answerLimit(grant.TTL))
	defer limit.Stop()
	standings := make(chan runner.Standing, 1)
	asked := s.Asked
	for {
		select {
		case asked <- runner.Check{Answer: standings}:
			asked = nil
		case standing := <-standings:
			s.tellCause(standing)
			if standing.Leading {
				answer.Leading, answer.Left = true, new(standing.Left.Milliseconds())
				return answer
			}
			answer.Reason = "the lease is lost"
			if standing.Err != nil {
				answer.Reason = standing.Err.Error()
			}
			return answer
		case <-s.over:
			answer.Reason = "the run is over"
			return answer
		case <-limit.C:
			answer.Reason = "the backend did not answer in time"
			return answer
		}
	}
}

// AskLimit is how long an answer is waited for: the socket's name says within which time it comes, and a little more.
// A wrapper that was stopped never answers.
func AskLimit(path string) time.Duration {
	const more = 200 * time.Millisecond
	limit := answerLimit(runner.DefaultTTL)
	if _, text, ok := strings.Cut(filepath.Base(path), socketPrefix); ok {
		if named, err := duration.Positive(text); err == nil {
			limit = named
		}
	}
	return limit + more
}

// AskRun asks the wrapper of a run.
func AskRun(ctx context.Context, path string, limit time.Duration) (CheckAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := exchange(ctx, path)
	if ctx.Err() != nil {
		err = fmt.Errorf("nothing came within %v", limit)
	}
	return answer, err
}

func exchange(ctx context.Context, path string) (answer CheckAnswer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://leaderrun"+checkPath, nil)
	if err != nil {
		return answer, err
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxQuestion,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}
	response, err := transport.RoundTrip(request) // which follows nobody to another place
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusConflict {
		return answer, fmt.Errorf("it says %s", response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, MaxQuestion)).Decode(&answer); err != nil {
		return answer, err
	}
	if answer.Leading && (response.StatusCode != http.StatusOK || answer.Left == nil) {
		return answer, errors.New("it contradicts itself")
	}
	return answer, nil
}
