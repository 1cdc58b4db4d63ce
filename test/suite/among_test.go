package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaderrun/leaderrun/backends"
)

const amongTTL = 10 * time.Second

var errDropped = errors.New("dropped")

// among is a store in memory on the way to which requests and replies are late or lost, while others do what they do.
type among struct {
	backends.Store
	w *amongWorld
}

type amongTx struct {
	backends.Tx
	w *amongWorld
	q backends.Request
}

func (a *among) Begin(ctx context.Context, q backends.Request) backends.Tx {
	return &amongTx{a.Store.Begin(ctx, q), a.w, q}
}

func (t *amongTx) Read(ctx context.Context) (backends.Snapshot, error) {
	t.w.passes()
	s, err := t.Tx.Read(ctx)
	t.w.passes()
	if t.w.chance(6) {
		return nil, errDropped
	}
	return s, err
}

func (t *amongTx) Swap(ctx context.Context, s backends.Snapshot, w backends.Write) (backends.Snapshot, bool, error) {
	t.w.passes()
	if t.w.chance(8) {
		return nil, false, errDropped
	}
	now, done, err := t.Tx.Swap(ctx, s, w)
	if done && w.Lease != nil {
		if t.w.ended[w.Lease.Holder] && !t.w.recordLost {
			t.w.t.Fatalf("%d revives %v, which has ended", t.q.Op, w.Lease)
		}
		if _, ok := t.w.since[*w.Lease]; !ok {
			t.w.since[*w.Lease] = t.w.now
		}
	}
	t.w.passes()
	if t.w.chance(8) {
		return nil, false, errDropped
	}
	if !done && t.w.chance(2) { // a store whose answer shows what there is
		now, err = t.Tx.Read(ctx)
	}
	return now, done, err
}

// process is one attempt to run the job, and what it believes.
type process struct {
	claim   backends.Claim
	grant   backends.Grant
	granted bool
	over    bool
	seenAt  time.Time
	until   time.Time // believes until then
	overAt  time.Time
	stop    bool // a request to stop was carried out
}

func (p *process) end() time.Time {
	if p.over && p.overAt.Before(p.until) {
		return p.overAt
	}
	return p.until
}

// amongWorld is all that happens, in its own time.
type amongWorld struct {
	t                     *rapid.T
	m                     *Mem
	e                     *backends.Engine
	now                   time.Time
	depth                 int
	n                     int
	all                   []*process
	ended                 map[string]bool
	since                 map[backends.Label]time.Time
	started               map[int64]*process
	done                  map[int64]bool
	recordLost, leaseLost bool
	faults, taken         bool
	log                   []string
}

func (w *amongWorld) logf(f string, a ...any) {
	w.log = append(w.log, fmt.Sprintf("%v %d ", w.now.Format("04:05.000"), w.depth)+fmt.Sprintf(f, a...))
}

func (w *amongWorld) chance(n int) bool { return rapid.IntRange(0, n-1).Draw(w.t, "chance") == n-1 }

func (w *amongWorld) passes() {
	if w.chance(3) {
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(w.t, "ms")) * time.Millisecond)
	}
	if w.depth < 3 && w.chance(4) {
		w.depth++
		w.does()
		w.depth--
	}
}

func (w *amongWorld) id() string { w.n++; return fmt.Sprint("h", w.n) }

func (w *amongWorld) does() {
	what := rapid.SampledFrom([]string{"new", "claim", "claim", "claim", "renew", "renew", "renew", "finish", "finish", "abandon", "stop", "revoke", "dead", "fault", "wait"}).Draw(w.t, "what")
	if len(w.all) == 0 || what == "new" {
		c := backends.Claim{Job: "job", Holder: backends.Holder{ID: w.id()}, TTL: amongTTL}
		if w.chance(2) {
			c.Tick, c.OnLost, c.MaxAttempts = w.now.Unix()/7*7, backends.Skip, 1
		}
		p := &process{claim: c}
		w.all = append(w.all, p)
		w.claims(p)
		return
	}
	p := w.all[len(w.all)-1-rapid.IntRange(0, min(len(w.all)-1, 4)).Draw(w.t, "who")]
	ctx := context.Background()
	switch what {
	case "wait":
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 12).Draw(w.t, "s")) * time.Second)
	case "claim":
		if !p.granted && !p.over {
			w.claims(p)
		}
	case "renew":
		if p.granted && !p.over && w.now.Before(p.until) {
			w.renews(p)
		}
	case "finish":
		if !p.granted {
			return
		}
		if !p.over {
			p.over, p.overAt = true, w.now
		}
		if p.grant.Tick != 0 {
			w.done[p.grant.Tick] = true
		}
		err := w.e.Finish(ctx, p.grant, backends.Outcome{State: backends.Done})
		w.logf("finish %s: %v", p.claim.Holder.ID, err)
		if err == nil {
			w.ended[p.claim.Holder.ID] = true
		}
	case "abandon":
		if p.granted {
			return
		}
		p.over, p.overAt = true, w.now
		err := w.e.Abandon(ctx, p.claim)
		w.logf("abandon %s: %v", p.claim.Holder.ID, err)
		if err == nil {
			w.ended[p.claim.Holder.ID] = true
		}
	case "stop", "revoke", "dead":
		if !p.granted || w.recordLost {
			return
		}
		kind := map[string]backends.OrderKind{"stop": backends.Stop, "revoke": backends.Revoke, "dead": backends.ForceRelease}[what]
		if kind == backends.ForceRelease && !p.over {
			p.over, p.overAt = true, w.now
		}
		w.taken = w.taken || kind != backends.Stop
		err := w.e.Order(ctx, backends.Order{Job: "job", Kind: kind, By: backends.Holder{ID: w.id()}, Token: p.grant.Token})
		w.logf("%s %s: %v", what, p.claim.Holder.ID, err)
		if err == nil {
			switch kind {
			case backends.Stop:
				p.stop = true
			case backends.Revoke, backends.ForceRelease:
				w.taken = true
			}
		}
	case "fault":
		if !w.faults {
			return
		}
		switch {
		case w.chance(2) && !w.leaseLost && !w.taken:
			w.recordLost = true
			w.m.DeleteRecord("job")
			for _, p := range w.all {
				p.stop = false
			}
			w.logf("record deleted")
		case !w.recordLost:
			w.leaseLost = true
			w.m.DeleteLease("job")
			w.logf("lease deleted")
		}
	}
}

func (w *amongWorld) claims(p *process) {
	c := p.claim
	if c.Seen != (backends.LastSeen{}) {
		c.Seen.For = w.now.Sub(p.seenAt)
	}
	began := w.now
	g, err := w.e.Acquire(context.Background(), c)
	w.logf("claim %s from %s: token %d %v", c.Holder.ID, began.Format("04:05.000"), g.Token, err)
	if r, ok := errors.AsType[*backends.Refusal](err); ok {
		seen := r.Seen
		if seen != (backends.LastSeen{}) && (seen.Token != p.claim.Seen.Token || seen.Beat != p.claim.Seen.Beat) {
			p.claim.Seen, p.seenAt = seen, w.now
		}
		if c.Tick != 0 && !w.recordLost && r.Tick == c.Tick {
			if r.Verdict == backends.IsDone && !w.done[c.Tick] {
				w.t.Fatalf("%s is told that %d is done, and it is not", c.Holder.ID, c.Tick)
			}
		}
		return
	}
	if err != nil || p.over || p.granted {
		return
	}
	p.granted, p.grant, p.until = true, g, began.Add(g.TTL)
	w.alone(p)
	if g.Tick != 0 && !w.recordLost && w.now.Before(p.until) {
		if first := w.started[g.Tick]; first != nil {
			w.t.Fatalf("tick %d is started by %s and %s", g.Tick, first.claim.Holder.ID, p.claim.Holder.ID)
		}
		w.started[g.Tick] = p
	}
}

func (w *amongWorld) renews(p *process) {
	began, stop := w.now, p.stop
	signal, err := w.e.Renew(context.Background(), p.grant)
	w.logf("renew %s from %s: %v %v", p.claim.Holder.ID, began.Format("04:05.000"), signal.Break != nil, err)
	switch {
	case errors.Is(err, backends.ErrLost):
		if !p.over && !w.ended[p.claim.Holder.ID] && !w.leaseLost && w.now.Before(p.until) && !w.revoked(p) {
			w.t.Fatalf("%s is told that its lease is lost, and it is not", p.claim.Holder.ID)
		}
		if !p.over {
			p.over, p.overAt = true, w.now
		}
	case err == nil:
		if stop && !w.recordLost && signal.Break == nil {
			w.t.Fatalf("%s is not told to stop", p.claim.Holder.ID)
		}
		if u := began.Add(p.grant.TTL); u.After(p.until) && !p.over && w.now.Before(u) {
			p.until = u
		}
		w.alone(p)
	}
}

func (w *amongWorld) revoked(p *process) bool { // an order whose reply was lost
	status, err := w.m.Inspect(context.Background(), "job")
	return err == nil && status.Record.Token != p.grant.Token
}

// alone checks that nobody else believes that he leads.
func (w *amongWorld) alone(p *process) {
	from := w.since[backends.LabelOf(p.grant)]
	for _, o := range w.all {
		if o == p || !o.granted {
			continue
		}
		of := w.since[backends.LabelOf(o.grant)]
		if of.Before(p.end()) && from.Before(o.end()) {
			w.t.Fatalf("%s has it from %v to %v, %s from %v to %v", p.claim.Holder.ID, from, p.end(), o.claim.Holder.ID, of, o.end())
		}
		if p.grant.Token == o.grant.Token && !w.recordLost || !w.recordLost && (p.grant.Token > o.grant.Token) != from.After(of) && !from.Equal(of) {
			w.t.Fatalf("tokens: %s has %d since %v, %s %d since %v", p.claim.Holder.ID, p.grant.Token, from, o.claim.Holder.ID, o.grant.Token, of)
		}
	}
}

// TestAmongOthers: requests and answers are late or lost, others do what they like in between, and an operator takes leases
// away; still no two believe at the same time that they lead, no lease of a run that has ended comes back, no tick starts
// twice, and nobody is told that he has lost what is his.
func TestAmongOthers(t *testing.T) {
	t.Parallel()
	for _, proof := range []backends.Proof{backends.ByUntil, backends.ByBeat} {
		for _, faults := range []bool{false, true} {
			t.Run(fmt.Sprint(proof, faults), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) {
					w := &amongWorld{
						t: t, now: time.Unix(1_700_000_000, 0), ended: map[string]bool{}, since: map[backends.Label]time.Time{},
						started: map[int64]*process{}, done: map[int64]bool{}, faults: faults,
					}
					w.m = NewMem(func() time.Time { return w.now })
					w.m.Proof = proof
					w.e = backends.NewEngine(&among{w.m.memStore, w})
					defer func() {
						if t.Failed() {
							for _, l := range w.log {
								t.Log(l)
							}
						}
					}()
					for range rapid.IntRange(20, 60).Draw(t, "steps") {
						w.does()
					}
				})
			})
		}
	}
}
