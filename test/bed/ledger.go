package bed

import (
	"bufio"
	"encoding/json"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// registry is what the witnesses tell while they live: who they are, and what they write to the ledgers. It stands for a
// resource that everybody can reach, whatever happens to hosts and stores.
type registry struct {
	listener net.Listener

	mu      sync.Mutex
	alive   map[string]Span // by run and role
	newest  map[string]Span // the main process of each job's last run
	changed chan struct{}   // closed at the next news
	ledgers map[string]*ledger
}

// ledger is the two ledgers of a job, or of one of its slots or shards.
type ledger struct {
	Ledger

	token            int64            // the highest that has written
	fenced, unfenced boottime.Instant // when the newest run began that has written
}

func newRegistry(dir string) (*registry, error) {
	l, err := net.Listen("unix", filepath.Join(dir, beats.SocketName))
	if err != nil {
		return nil, err
	}
	r := &registry{
		listener: l, alive: map[string]Span{}, newest: map[string]Span{},
		changed: make(chan struct{}), ledgers: map[string]*ledger{},
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r, nil
}

func (r *registry) close() { _ = r.listener.Close() }

func (r *registry) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	lines := bufio.NewReader(conn)
	line, err := lines.ReadBytes('\n')
	var s Span
	if err != nil || json.Unmarshal(line, &s) != nil {
		return
	}
	r.arrives(s)
	defer r.leaves(s)
	for {
		if _, err := lines.ReadByte(); err != nil {
			return
		}
		answer := []byte{'-'}
		if r.enter(s) {
			answer[0] = '+'
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

func (r *registry) arrives(s Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive[beats.Name(s)] = s
	if s.Role == beats.RoleMain && s.First > r.newest[s.Job].First {
		r.newest[s.Job] = s
	}
	r.tell()
}

func (r *registry) leaves(s Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.alive, beats.Name(s))
	r.tell()
}

// tell wakes up whoever waits for news.
func (r *registry) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// enter writes to both ledgers and says whether the fenced one took it.
func (r *registry) enter(s Span) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.ledgers[s.Lease()]
	if l == nil {
		l = &ledger{}
		r.ledgers[s.Lease()] = l
	}
	l.Writes++
	if s.Began < l.unfenced {
		l.StaleUnfenced++
	}
	l.unfenced = max(l.unfenced, s.Began)
	if s.Token < l.token {
		l.Refused++
		return false
	}
	// When runs began is another witness than their tokens.
	if s.Token < l.token || s.Began < l.fenced {
		l.StaleFenced++
	}
	l.token, l.fenced = max(l.token, s.Token), max(l.fenced, s.Began)
	return true
}

// runOf returns the main process of a run of a job that is alive on a host ("": any), the newest if there are several.
func (r *registry) runOf(job, host string) (Span, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest Span
	for _, s := range r.alive {
		if s.Job == job && (host == "" || s.Host == host) && s.Role == beats.RoleMain && s.First > newest.First {
			newest = s
		}
	}
	return newest, newest.Run != ""
}

// processes returns those that are alive and fit, whichever role they have: the first of a run may have ended before the
// others.
func (r *registry) processes(fits func(Span) bool) []Span {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.alive))
	r.mu.Unlock()
	return slices.DeleteFunc(all, func(s Span) bool { return !fits(s) })
}

// last returns the newest run of a job, alive or not.
func (r *registry) last(job string) Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest[job]
}

// news returns a channel that is closed when there is some.
func (r *registry) news() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// books returns a copy of the ledgers.
func (r *registry) books() map[string]Ledger {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]Ledger{}
	for _, lease := range slices.Collect(maps.Keys(r.ledgers)) {
		all[lease] = r.ledgers[lease].Ledger
	}
	return all
}
