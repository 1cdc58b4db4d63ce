package suite

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
)

// Mem is a store in memory, the smallest there is, with the engine that makes a driver of it. Tests of the runner use it,
// and the suite proves itself on it. It is one client, and closing it does nothing; Client returns others.
type Mem struct {
	*backends.Engine
	*memStore
}

// memStore is a map under a lock.
type memStore struct {
	Proof   backends.Proof // how a vanished holder's death is proved; 0: ByUntil
	Longest time.Duration  // how long the store quarantines after it forgot; 0: it does not

	clock  func() time.Time
	turn   chan struct{} // holds one value while nobody is inside
	jobs   map[string]*memJob
	writes int64 // counts changes; it goes on where the store forgets
	forgot int64 // the change with which it did so last
	mark   backends.Mark
	self   backends.Server

	watching sync.Mutex
	watchers map[chan backends.News]string

	key    func(job string) string // of jobs; tests replace it
	silent bool                    // watches tell nothing after they have begun
}

type memJob struct {
	record  backends.Record
	known   bool // there is a record
	holder  string
	token   int64
	until   time.Time // of the lease
	version int64     // the last change
}

// NewMem returns an empty store that reads the time from clock; nil is time.Now.
func NewMem(clock func() time.Time) *Mem {
	if clock == nil {
		clock = time.Now
	}
	m := &memStore{
		clock: clock, turn: make(chan struct{}, 1), jobs: map[string]*memJob{},
		watchers: map[chan backends.News]string{},
		key:      func(job string) string { return job },
	}
	m.self = backends.Server{Identity: "1", Started: clock().UnixMilli()}
	m.mark = backends.Mark{Identity: "1"}
	m.turn <- struct{}{}
	return &Mem{Engine: backends.NewEngine(m), memStore: m}
}

// Client returns another client of the store.
func (m *Mem) Client() *backends.Engine {
	e := backends.NewEngine(m.memStore)
	e.Rules = m.Rules
	return e
}

// Close implements backends.Backend.
func (*Mem) Close() error { return nil }

// Limits implements backends.Backend: Longest may have changed since the store was made.
func (m *Mem) Limits() backends.Limits { return m.Traits().Limits }

// Traits implements backends.Store.
func (m *memStore) Traits() backends.Traits {
	return backends.Traits{Limits: backends.Limits{MaxTTL: m.Longest, BySilence: m.Proof == backends.ByBeat}}
}

// Begin implements backends.Store.
func (m *memStore) Begin(_ context.Context, q backends.Request) backends.Tx { return &memTx{m, q} }

// Close implements backends.Store.
func (*memStore) Close() error { return nil }

// Check implements backends.Store.
func (*memStore) Check(context.Context, time.Duration) []backends.Finding {
	return []backends.Finding{{Grade: backends.Fine, What: checkup.Reachable, Why: "in memory"}}
}

// memTx is one request.
type memTx struct {
	*memStore
	q backends.Request
}

// memSnapshot is a job at one moment.
type memSnapshot struct {
	*memStore
	job        memJob
	at         time.Time // when it was so
	quarantine time.Duration
}

// View implements backends.Snapshot. A lease that was valid then may have been renewed since: nobody is told that it has run
// out because the answer was long on its way.
func (s *memSnapshot) View(backends.Request) backends.View {
	now, lease := s.clock(), s.job.lease(s.at)
	if lease != nil {
		lease.Left = max(lease.Left-now.Sub(s.at), 0)
	}
	return backends.View{
		Record: s.job.record, Lease: lease, Now: now, Proof: cmp.Or(s.Proof, backends.ByUntil), Quarantine: s.quarantine,
	}
}

// Newer implements backends.Snapshot.
func (s *memSnapshot) Newer(than backends.Snapshot) bool {
	last, ok := than.(*memSnapshot)
	return ok && s.job.version > last.job.version
}

// Complete implements backends.Snapshot.
func (*memSnapshot) Complete(*backends.Grant) {}

// Read implements backends.Tx. A claim writes the mark.
func (t *memTx) Read(ctx context.Context) (s backends.Snapshot, err error) {
	var newer error
	err = t.inside(ctx, func() {
		j := t.job(t.q.Job)
		newer = backends.CheckForm(int64(j.record.Form))
		mark, quarantine := t.mark.Admit(t.self, t.Longest, t.clock().UnixMilli(), j.known)
		if t.q.Op == backends.ToClaim {
			t.mark = mark
		}
		s = t.snapshot(j, quarantine)
	})
	if err == nil && newer != nil {
		err = backends.Misconfigured("", "the record: %w", newer)
	}
	return s, err
}

// Extend implements backends.Tx.
func (t *memTx) Extend(context.Context, backends.Snapshot) (time.Duration, error) {
	return t.q.TTL, nil
}

// Swap implements backends.Tx. A lease that is renewed must still be valid.
func (t *memTx) Swap(ctx context.Context, read backends.Snapshot, w backends.Write) (next backends.Snapshot, done bool, err error) {
	s, _ := read.(*memSnapshot)
	err = t.inside(ctx, func() {
		j, now := t.job(t.q.Job), t.clock()
		renewal := w.Lease != nil && j.holder == w.Lease.Holder && j.token == w.Lease.Token
		if j.version != s.job.version || renewal && j.lease(now) == nil {
			return
		}
		t.jobs[t.key(t.q.Job)] = j
		t.changed(j)
		j.record, j.known, done = w.Record, true, true
		if w.Release {
			j.holder = ""
		}
		if w.Lease != nil {
			j.holder, j.token, j.until = w.Lease.Holder, w.Lease.Token, now.Add(w.TTL)
		}
		next = t.snapshot(j, 0)
	})
	if done && w.Lease == nil {
		t.wake(t.q.Job)
	}
	return next, done, err
}

// End implements backends.Tx.
func (*memTx) End(context.Context, error) {}

// inside runs f alone.
func (m *memStore) inside(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	f()
	return nil
}

// job returns what is kept about a job, which may be nothing.
func (m *memStore) job(name string) *memJob {
	if j := m.jobs[m.key(name)]; j != nil {
		return j
	}
	return &memJob{version: m.forgot}
}

// changed gives a job a version that none had before.
func (m *memStore) changed(j *memJob) {
	m.writes++
	j.version = m.writes
}

// forgets makes sure that nothing is written on what was read before.
func (m *memStore) forgets() {
	m.writes++
	m.forgot = m.writes
	for _, j := range m.jobs {
		m.changed(j)
	}
}

func (m *memStore) snapshot(j *memJob, quarantine time.Duration) backends.Snapshot {
	now := *j
	now.record = copyOf(j.record)
	return &memSnapshot{m, now, m.clock(), quarantine}
}

// lease returns the lease that is valid at a time, or nil.
func (j *memJob) lease(now time.Time) *backends.Lease {
	left := j.until.Sub(now)
	if j.holder == "" || left <= 0 {
		return nil
	}
	return &backends.Lease{Holder: j.holder, Token: j.token, Left: left}
}

// Follow implements backends.Store.
func (m *memStore) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	c := make(chan backends.News, 1)
	m.watching.Lock()
	m.watchers[c] = job
	m.watching.Unlock()
	defer func() {
		m.watching.Lock()
		defer m.watching.Unlock()
		delete(m.watchers, c)
	}()
	tell(backends.News{Look: true})
	if m.silent {
		tell = func(backends.News) {}
	}
	for {
		select {
		case n := <-c:
			tell(n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *memStore) wake(job string) {
	m.watching.Lock()
	defer m.watching.Unlock()
	for c, watched := range m.watchers {
		if watched == job {
			backends.Tell(c, backends.News{Look: true})
		}
	}
}

// List implements backends.Store.
func (m *memStore) List(ctx context.Context) (names []string, err error) {
	err = m.inside(ctx, func() {
		for _, j := range m.jobs {
			if j.known {
				names = append(names, j.record.Job)
			}
		}
	})
	return names, err
}

// copyOf returns a record as it would come back from a store.
func copyOf(r backends.Record) backends.Record {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	var out backends.Record
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// alone runs f as a fault or an operator would.
func (m *memStore) alone(f func()) {
	<-m.turn
	defer func() { m.turn <- struct{}{} }()
	f()
}

// DeleteLease removes a job's lease and leaves its record.
func (m *memStore) DeleteLease(job string) {
	m.alone(func() {
		if j := m.jobs[m.key(job)]; j != nil {
			j.holder = ""
			m.changed(j)
		}
	})
}

// DeleteRecord removes a job's record and leaves its lease.
func (m *memStore) DeleteRecord(job string) {
	m.alone(func() {
		if j := m.jobs[m.key(job)]; j != nil {
			j.record, j.known = backends.Record{}, false
			m.changed(j)
		}
	})
}

// Empty makes the store forget everything, its mark too.
func (m *memStore) Empty() {
	m.alone(func() {
		clear(m.jobs)
		m.forgets()
		m.mark = backends.Mark{}
		m.self.Forgot = true
	})
}

// Restart makes the store another server that has the same data, or none.
func (m *memStore) Restart(empty bool) {
	m.alone(func() {
		m.self = backends.Server{Identity: m.self.Identity + "+", Started: m.clock().UnixMilli()}
		m.forgets()
		if empty {
			clear(m.jobs)
			m.mark = backends.Mark{}
		}
	})
}

// SetBreak writes an operator's request to stop into a job's record.
func (m *memStore) SetBreak(job string, b backends.BreakRequest) {
	m.Change(job, WithBreak(b))
}

// Change changes a job's record.
func (m *memStore) Change(job string, change func(r *backends.Record)) {
	m.alone(func() {
		if j := m.jobs[m.key(job)]; j != nil {
			change(&j.record)
			m.changed(j)
		}
	})
	m.wake(job)
}

// Stall makes every request wait until the returned function is called.
func (m *memStore) Stall() (resume func()) {
	<-m.turn
	return sync.OnceFunc(func() { m.turn <- struct{}{} })
}
