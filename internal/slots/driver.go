package slots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/remedy"
)

const (
	lookers  = 16 // how many slots are looked at at a time, before the first claim
	watchers = 32 // how many slots a candidate watches at most: some stores have a connection or a thread for each
)

// Store is what is needed of the store that keeps the leases.
type Store interface {
	backends.Driver
	Inspect(ctx context.Context, job string) (backends.Status, error)
}

// Driver is a store for one holder, which wants any one of a job's slots. A claim of the job is granted as a claim of a
// slot, whose name the grant's claim has; what the holder does with the grant then is about that slot. It is safe for
// concurrent use, by one attempt.
type Driver struct {
	Store
	job  string
	host string // the candidate's own
	warn func(text, hint string)

	mu     sync.Mutex
	slots  []slot
	order  []int // the slots, those to be tried first first; nil: not all were looked at
	passes int   // how many claims of the job there were
	ours   *slot // that was granted
}

// slot is what a candidate knows of one.
type slot struct {
	name string

	looked bool      // the record was looked at before the first claim
	rank   rank      // by that look
	last   time.Time // the same: when it was granted last

	damage  error             // why its record cannot be read: it counts as taken
	told    bool              // somebody was warned of it
	refusal *backends.Refusal // the last one
	due     time.Time         // until then a claim would be refused again, unless there is news
	news    int               // how often there was
	seen    backends.LastSeen // the last sign of life of its holder
	seenAt  time.Time         // when that was first seen

	pass    int  // the claim of the job that tried it last
	unclear bool // a claim has had no answer yet: the slot may be ours
	stray   bool // one that had none may still arrive
}

// rank says which slots a candidate tries first.
type rank int

const (
	first    rank = iota // slot 0 that was never used: it tells everybody that the job has slots
	own                  // this host had it last
	unused               // nobody ever had it
	others               // another host had it last
	vanished             // its holder may be alive
	held
)

// New returns a driver for one attempt of a host to get one of n slots of a job. It warns where others use more slots.
func New(store Store, job string, n int, host string, warn func(text, hint string)) *Driver {
	d := &Driver{Store: store, job: job, host: host, warn: warn, slots: make([]slot, n)}
	for i := range d.slots {
		d.slots[i].name = Name(job, i)
	}
	return d
}

// Close implements backends.Driver. The store stays open: it is whose who opened it.
func (d *Driver) Close() error { return nil }

// Acquire implements backends.Driver. It tries the slots one after the other, but none that was refused, before the time
// that the refusal named or until there is news of it. A slot whose claim was not answered is tried again before any other:
// it may be ours. The refusal speaks for all slots.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if err := d.look(ctx); err != nil {
		return backends.Grant{}, err
	}
	d.mu.Lock()
	if d.ours != nil { // the machine has not taken the grant, because it came too late: the slot is asked for again before any other
		d.ours.unclear, d.ours = true, nil
	}
	d.passes++
	pass := d.passes
	d.mu.Unlock()
	for ctx.Err() == nil {
		s, claim, news := d.next(c, pass)
		if s == nil {
			return backends.Grant{}, d.answer(time.Now(), c.Inside)
		}
		g, err := d.Store.Acquire(ctx, claim)
		refusal, refused := errors.AsType[*backends.Refusal](err)
		switch {
		case err == nil:
			d.granted(ctx, s, c)
			return g, nil
		case backends.IsDamage(err):
			d.damaged(s, err)
			continue
		case !refused:
			return backends.Grant{}, err
		}
		d.refused(s, refusal, news)
		switch refusal.Verdict {
		case backends.Held, backends.Nested, backends.Vanished, backends.Quarantined, backends.Reserved:
		default: // it is about the claim itself
			return backends.Grant{}, err
		}
	}
	return backends.Grant{}, context.Cause(ctx)
}

// next returns the slot to be tried next, and the claim for it; nil: there is none. The claim counts as one without an answer
// from now on.
func (d *Driver) next(c backends.Claim, pass int) (s *slot, claim backends.Claim, news int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	i := slices.IndexFunc(d.slots, func(s slot) bool { return s.unclear })
	if i < 0 {
		at := slices.IndexFunc(d.order, func(i int) bool { return d.slots[i].pass < pass && !d.slots[i].due.After(now) })
		if at < 0 {
			return nil, c, 0
		}
		i = d.order[at]
	}
	s = &d.slots[i]
	c.Job, c.Seen = s.name, s.seen
	if s.seen.Token != 0 {
		c.Seen.For = now.Sub(s.seenAt)
	}
	s.pass = pass
	s.stray = s.unclear || s.stray
	s.unclear = true
	return s, c, s.news
}

// refused notes the answer to a claim. News that came meanwhile may be newer.
func (d *Driver) refused(s *slot, r *backends.Refusal, news int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s.unclear, s.refusal, s.damage = false, r, nil
	s.observe(r.Seen, now)
	if s.news == news {
		s.due = now.Add(r.Wait)
	}
}

// mending is how long a slot whose record cannot be read is not looked at again.
const mending = 10 * time.Second

// damaged notes that the record of a slot cannot be read. It counts as taken, and the others are tried.
func (d *Driver) damaged(s *slot, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.damage, s.unclear, s.looked, s.rank = err, false, true, held
	s.refusal, s.due = &backends.Refusal{Verdict: backends.Held}, time.Now().Add(mending)
}

// warnOfDamage tells of slots whose records cannot be read, once others can be.
func (d *Driver) warnOfDamage() {
	d.mu.Lock()
	var damaged []slot
	for i := range d.slots {
		if s := &d.slots[i]; s.damage != nil && !s.told {
			s.told = true
			damaged = append(damaged, *s)
		}
	}
	d.mu.Unlock()
	for _, s := range damaged {
		d.warn(fmt.Sprintf("%s counts as taken: %v", s.name, s.damage), remedy.Of(s.damage))
	}
}

// answer is what a claim gets that no slot has granted: the damage, if there is no slot without one.
func (d *Driver) answer(now time.Time, inside backends.Inside) error {
	d.mu.Lock()
	sound := slices.ContainsFunc(d.slots, func(s slot) bool { return s.damage == nil })
	first := d.slots[0].damage
	d.mu.Unlock()
	if !sound {
		return first
	}
	d.warnOfDamage()
	return d.refusal(now, inside)
}

// observe keeps a sign of life, which counts from when it was first seen.
func (s *slot) observe(seen backends.LastSeen, now time.Time) {
	seen.For = 0
	if seen.Token != 0 && seen != s.seen {
		s.seen, s.seenAt = seen, now
	}
}

// granted notes that a slot is ours, and takes claims of other slots back that may still arrive: nobody would renew those leases.
func (d *Driver) granted(ctx context.Context, s *slot, c backends.Claim) {
	d.mu.Lock()
	d.ours, s.unclear, s.stray = s, false, false
	d.mu.Unlock()
	d.warnOfDamage()
	_ = d.takeBack(ctx, c) // a lease that nobody renews runs out by itself
}

// refusal speaks for all slots. Where a run that has started this process has one of them, the candidate would wait for itself. As long as a holder may be alive whose lease is gone, a slot may become free without anybody's
// doing: that is what a candidate waits for in any case, whether or not it waits for runs to end.
func (d *Driver) refusal(now time.Time, inside backends.Inside) *backends.Refusal {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := &backends.Refusal{Verdict: backends.Held, Wait: time.Duration(1<<63 - 1)}
	for i := range d.slots {
		s := &d.slots[i]
		r := s.refusal
		if inside.Has(r.Holder) {
			return &backends.Refusal{Verdict: backends.Nested, Holder: r.Holder, Token: r.Token}
		}
		all.Wait = min(all.Wait, max(s.due.Sub(now), 0))
		switch {
		case r.Verdict == backends.Vanished, r.Verdict == backends.Quarantined && all.Verdict == backends.Held:
			all.Verdict = r.Verdict
		}
		if r.Token >= all.Token {
			all.Token, all.Holder = r.Token, r.Holder
		}
	}
	return all
}

// Abandon implements backends.Driver, for all slots that may be the holder's.
func (d *Driver) Abandon(ctx context.Context, c backends.Claim) error {
	d.mu.Lock()
	ours := d.ours
	d.mu.Unlock()
	var err error
	if ours != nil {
		c.Job = ours.name
		err = d.Store.Abandon(ctx, c)
	}
	return cmp.Or(err, d.takeBack(ctx, c))
}

// takeBack abandons the claims that had no answer.
func (d *Driver) takeBack(ctx context.Context, c backends.Claim) error {
	d.mu.Lock()
	var unclear []*slot
	for i := range d.slots {
		if s := &d.slots[i]; s.unclear || s.stray {
			unclear = append(unclear, s)
		}
	}
	d.mu.Unlock()
	var failed error
	for _, s := range unclear {
		c.Job = s.name
		err := d.Store.Abandon(ctx, c)
		failed = cmp.Or(failed, err)
		if err == nil {
			d.mu.Lock()
			s.unclear, s.stray = false, false
			d.mu.Unlock()
		}
	}
	return failed
}

// look looks at all slots that were not looked at yet, and puts them in order.
func (d *Driver) look(ctx context.Context) error {
	d.mu.Lock()
	done := d.order != nil
	d.mu.Unlock()
	if done {
		return nil
	}
	var err error
	var once sync.Once
	var wait sync.WaitGroup
	queue := make(chan *slot)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range min(lookers, len(d.slots)) {
		wait.Add(1)
		panics.Go(func() {
			defer wait.Done()
			for s := range queue {
				if failed := d.lookAt(ctx, s); failed != nil {
					once.Do(func() { err = failed })
					cancel(failed)
				}
			}
		})
	}
	for i := range d.slots {
		select {
		case queue <- &d.slots[i]:
		case <-ctx.Done():
		}
	}
	close(queue)
	wait.Wait()
	if err = cmp.Or(err, context.Cause(ctx)); err != nil {
		return err
	}
	d.arrange()
	d.lookBeyond(ctx)
	return nil
}

// lookAt looks at one slot.
func (d *Driver) lookAt(ctx context.Context, s *slot) error {
	d.mu.Lock()
	looked := s.looked
	d.mu.Unlock()
	if looked {
		return nil
	}
	status, err := d.Inspect(ctx, s.name)
	if backends.IsDamage(err) {
		d.damaged(s, err)
		return nil
	}
	unknown := errors.Is(err, backends.ErrUnknownJob)
	if err != nil && !unknown {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, r := time.Now(), &status.Record
	s.looked, s.last = true, time.UnixMilli(r.Granted)
	if r.Token != 0 {
		s.observe(backends.LastSeen{Token: r.Token, Beat: r.Beat}, now)
	}
	switch {
	case status.Lease != nil:
		s.rank, s.due = held, now.Add(status.Lease.Left)
		s.refusal = heldBy(status)
	case status.Wait > 0:
		s.rank = vanished
	case r.Holder.Host != "" && r.Holder.Host == d.host:
		s.rank = own
	case r.Token != 0:
		s.rank = others
	case s == &d.slots[0] && unknown:
		s.rank = first
	default:
		s.rank = unused
	}
	return nil
}

// heldBy is the refusal that a claim would get where somebody has the lease.
func heldBy(status backends.Status) *backends.Refusal {
	return &backends.Refusal{Verdict: backends.Held, Holder: backends.HolderOf(&status.Record, status.Lease), Token: status.Lease.Token}
}

// arrange puts the slots in the order in which they are tried: the one that this host had last first, the rest by chance, so that
// hosts that begin at once do not all want the same.
func (d *Driver) arrange() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = rand.Perm(len(d.slots)) //nolint:gosec // not a secret
	slices.SortStableFunc(d.order, func(i, j int) int {
		a, b := &d.slots[i], &d.slots[j]
		order := cmp.Compare(a.rank, b.rank)
		if order == 0 && a.rank == own {
			order = b.last.Compare(a.last)
		}
		return order
	})
}

// lookBeyond warns where somebody runs in a slot that does not exist here.
func (d *Driver) lookBeyond(ctx context.Context) {
	n := len(d.slots)
	status, err := d.Inspect(ctx, Name(d.job, n))
	if err != nil || status.Lease == nil {
		return
	}
	host := cmp.Or(heldBy(status).Holder.Host, "another host")
	d.warn("slot "+Name(d.job, n)+" is taken by "+host+", and there are fewer here", "give all hosts the same --slots; runs go on in their slots until they end")
}

// Watch implements backends.Driver: of the slot that was granted, or of those that are not free. Of many, only some are watched,
// by chance others on each host; to the others a claim goes when their leases would run out.
func (d *Driver) Watch(ctx context.Context, _ string) (<-chan backends.News, error) {
	d.mu.Lock()
	ours, order := d.ours, slices.Clone(d.order)
	d.mu.Unlock()
	if ours != nil {
		return d.Store.Watch(ctx, ours.name)
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan backends.News, 1)
	var wait sync.WaitGroup
	for _, i := range order[:min(len(order), watchers)] {
		in, err := d.Store.Watch(ctx, d.slots[i].name)
		if err != nil {
			cancel()
			return nil, err
		}
		wait.Add(1)
		panics.Go(func() {
			defer wait.Done()
			defer cancel() // where one breaks, all are opened anew
			for n := range in {
				d.handle(&d.slots[i], n)
				if n.Look {
					backends.Tell(out, backends.News{Look: true})
				}
			}
		})
	}
	panics.Go(func() {
		wait.Wait()
		cancel()
		close(out)
	})
	return out, nil
}

// handle notes news of a slot.
func (d *Driver) handle(s *slot, n backends.News) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.observe(n.Seen, time.Now())
	if n.Look {
		s.news++
		s.due = time.Time{}
	}
}
