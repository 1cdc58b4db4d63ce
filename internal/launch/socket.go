package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise"
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
