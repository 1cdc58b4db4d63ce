package backendtest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

var (
	_ backends.Driver    = (*Mem)(nil)
	_ backends.Watcher   = (*Mem)(nil)
	_ backends.Inspector = (*Mem)(nil)
	_ backends.Operator  = (*Mem)(nil)
)

// Mem is the smallest driver there is: a map under a lock around the one decision. Tests of the runner use it
// as a store, and the suite proves itself on it. All its clients are one value; closing it does nothing.
type Mem struct {
	Proof   backends.Proof // how a vanished holder's death is proved; 0: ByUntil
	Longest time.Duration  // how long the store quarantines after it forgot; 0: it does not

	clock func() time.Time
	turn  chan struct{} // holds one value while nobody is inside
	jobs  map[string]*memJob
	mark  backends.Mark
	self  backends.Server

	watching sync.Mutex
	watchers map[chan backends.News]string

	// The decisions, which tests replace with broken ones.
	decide  func(backends.View, backends.Claim) backends.Decision
	renew   func(backends.View, backends.Grant) backends.Renewal
	finish  func(backends.View, backends.Grant, backends.Outcome) backends.Ending
	abandon func(backends.View, backends.Claim) backends.Ending
	order   func(backends.View, backends.Order) backends.Ordered
	key     func(job string) string
	notify  func(job string)
}

type memJob struct {
	record backends.Record
	known  bool // there is a record
	holder string
	token  int64
	until  time.Time // of the lease
}

// NewMem returns an empty store that reads the time from clock; nil is time.Now.
func NewMem(clock func() time.Time) *Mem {
	if clock == nil {
		clock = time.Now
	}
	m := &Mem{
		clock: clock, turn: make(chan struct{}, 1), jobs: map[string]*memJob{},
		watchers: map[chan backends.News]string{},
		decide:   backends.Decide, renew: backends.DecideRenew,
		finish: backends.DecideFinish, abandon: backends.DecideAbandon, order: backends.DecideOrder,
		key: func(job string) string { return job },
	}
	m.notify = m.wake
	m.self = backends.Server{Identity: "1", Started: clock().UnixMilli()}
	m.mark = backends.Mark{Identity: "1"}
	m.turn <- struct{}{}
	return m
}

// Acquire implements backends.Driver.
func (m *Mem) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	var d backends.Decision
	err := m.step(ctx, c.Job, func(j *memJob, v backends.View) {
		m.mark, v.Quarantine = m.mark.Admit(m.self, m.Longest, v.Now.UnixMilli(), j.known)
		d = m.decide(v, c)
		if d.Changed {
			j.record, j.known = d.Record, true
		}
		if d.Grant != nil {
			j.holder, j.token, j.until = c.Holder.ID, d.Grant.Token, v.Now.Add(c.TTL)
		}
	})
	switch {
	case err != nil:
		return backends.Grant{}, err
	case d.Refusal != nil:
		return backends.Grant{}, d.Refusal
	}
	return *d.Grant, nil
}

// Renew implements backends.Driver.
func (m *Mem) Renew(ctx context.Context, g backends.Grant) (backends.Signal, error) {
	var r backends.Renewal
	err := m.step(ctx, g.Claim.Job, func(j *memJob, v backends.View) {
		if r = m.renew(v, g); !r.Lost {
			j.record, j.known, j.until = r.Record, true, v.Now.Add(g.TTL)
		}
	})
	if err == nil && r.Lost {
		err = backends.ErrLost
	}
	return r.Signal, err
}

// Finish implements backends.Driver.
func (m *Mem) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	return m.end(ctx, g.Claim.Job, func(v backends.View) backends.Ending { return m.finish(v, g, o) })
}

// Abandon implements backends.Driver.
func (m *Mem) Abandon(ctx context.Context, c backends.Claim) error {
	return m.end(ctx, c.Job, func(v backends.View) backends.Ending { return m.abandon(v, c) })
}

// Order implements backends.Operator.
func (m *Mem) Order(ctx context.Context, o backends.Order) error {
	var answer backends.Ordered
	err := m.step(ctx, o.Job, func(j *memJob, v backends.View) {
		_, v.Quarantine = m.mark.Admit(m.self, m.Longest, v.Now.UnixMilli(), j.known)
		answer = m.order(v, o)
		if answer.Changed {
			j.record, j.known = answer.Record, true
		}
		if answer.Release {
			j.holder = ""
		}
	})
	if err != nil {
		return err
	}
	m.notify(o.Job)
	return answer.Err
}

func (m *Mem) end(ctx context.Context, job string, decide func(backends.View) backends.Ending) error {
	var e backends.Ending
	err := m.step(ctx, job, func(j *memJob, v backends.View) {
		e = decide(v)
		if e.Changed {
			j.record, j.known = e.Record, true
		}
		if e.Release {
			j.holder = ""
		}
	})
	if err != nil {
		return err
	}
	m.notify(job)
	if e.Lost {
		return backends.ErrLost
	}
	return nil
}

// step runs f alone, with what the store holds about a job.
func (m *Mem) step(ctx context.Context, job string, f func(*memJob, backends.View)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	k := m.key(job)
	j := m.jobs[k]
	if j == nil {
		j = &memJob{}
		m.jobs[k] = j
	}
	f(j, m.view(j))
	return nil
}

func (m *Mem) view(j *memJob) backends.View {
	v := backends.View{Record: j.record, Now: m.clock(), Proof: cmp.Or(m.Proof, backends.ByUntil)}
	if left := j.until.Sub(v.Now); j.holder != "" && left > 0 {
		v.Lease = &backends.Lease{Holder: j.holder, Token: j.token, Left: left}
	}
	return v
}

// Limits implements backends.Driver.
func (m *Mem) Limits() backends.Limits { return backends.Limits{MaxTTL: m.Longest} }

// Close implements backends.Driver.
func (m *Mem) Close() error { return nil }

// Watch implements backends.Watcher.
func (m *Mem) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := make(chan backends.News, 1)
	m.watching.Lock()
	defer m.watching.Unlock()
	m.watchers[c] = job
	context.AfterFunc(ctx, func() {
		m.watching.Lock()
		defer m.watching.Unlock()
		delete(m.watchers, c)
		close(c)
	})
	return c, nil
}

func (m *Mem) wake(job string) {
	m.watching.Lock()
	defer m.watching.Unlock()
	for c, watched := range m.watchers {
		if watched == job {
			backends.Tell(c, backends.News{Look: true})
		}
	}
}

// Inspect implements backends.Inspector.
func (m *Mem) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, known := backends.Status{}, false
	err := m.step(ctx, job, func(j *memJob, v backends.View) {
		known = j.known || v.Lease != nil
		s = backends.Status{Record: copyOf(j.record), Lease: v.Lease, Now: v.Now}
		if r := &s.Record; v.Lease == nil && !r.Free() && v.Proof == backends.ByUntil {
			s.Wait = max(time.UnixMilli(r.Until).Sub(v.Now), 0)
		}
	})
	if err == nil && !known {
		err = backends.ErrUnknownJob
	}
	return s, err
}

// Jobs implements backends.Inspector.
func (m *Mem) Jobs(ctx context.Context) ([]string, error) {
	var names []string
	err := m.step(ctx, "", func(*memJob, backends.View) {
		for _, j := range m.jobs {
			if j.known {
				names = append(names, j.record.Job)
			}
		}
	})
	slices.Sort(names)
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
func (m *Mem) alone(f func()) {
	<-m.turn
	defer func() { m.turn <- struct{}{} }()
	f()
}

// DeleteLease removes a job's lease and leaves its record.
func (m *Mem) DeleteLease(job string) {
	m.alone(func() {
		if j := m.jobs[m.key(job)]; j != nil {
			j.holder = ""
		}
	})
}

// DeleteRecord removes a job's record and leaves its lease.
func (m *Mem) DeleteRecord(job string) {
	m.alone(func() {
		if j := m.jobs[m.key(job)]; j != nil {
			j.record, j.known = backends.Record{}, false
		}
	})
}

// Empty makes the store forget everything, its mark too.
func (m *Mem) Empty() {
	m.alone(func() {
		clear(m.jobs)
		m.mark = backends.Mark{}
		m.self.Forgot = true
	})
}

// Restart makes the store another server that has the same data, or none.
func (m *Mem) Restart(empty bool) {
	m.alone(func() {
		m.self = backends.Server{Identity: m.self.Identity + "+", Started: m.clock().UnixMilli()}
		if empty {
			clear(m.jobs)
			m.mark = backends.Mark{}
		}
	})
}

// SetBreak writes an operator's request to stop into a job's record.
func (m *Mem) SetBreak(job string, b backends.BreakRequest) {
	m.alone(func() {
		if j := m.jobs[m.key(job)]; j != nil {
			j.record.Break = &b
		}
	})
	m.notify(job)
}

// Stall makes every request wait until the returned function is called.
func (m *Mem) Stall() (resume func()) {
	<-m.turn
	return sync.OnceFunc(func() { m.turn <- struct{}{} })
}
