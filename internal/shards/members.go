package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/remedy"
	"github.com/leaderrun/leaderrun/internal/slots"
	"github.com/leaderrun/leaderrun/runner"
)

// membership is what the name of a job ends with whose slots are the places of a job's members.
const membership = "#member"

// Members returns the job whose slots are the places of a job's members. No job of anybody's own has such a name.
func Members(job string) string { return job + membership }

// IsMembers says whether a name is one that Members returns, or that of a place. Then job is the job.
func IsMembers(name string) (job string, ok bool) {
	if of, _, isSlot := slots.Split(name); isSlot {
		name = of
	}
	return strings.CutSuffix(name, membership)
}

// Differs is the error of a host that found a member which divides the same job into another number of shards.
type Differs struct {
	Host         string // the member's
	Theirs, Ours int
}

func (d *Differs) Error() string {
	return fmt.Sprintf("%s divides it into %d shards, and this host into %d", d.Host, d.Theirs, d.Ours)
}

const nowhere = -1 // a place that a host does not have

// errCrowd is about a store by which there is a member in every place that has a name: it is asked for no further ones.
var errCrowd = fmt.Errorf("more than %d hosts share the shards by what the store says, which cannot be", slots.Most)

// members keeps a host's place among the members of a job, and says how many there are. A place is a lease, so a member that dies
// loses it. Taken places have no gaps for long: a newcomer takes the lowest free one, and where there is one below it, the member in
// the last place moves there. No promise rests on any of this: at worst shards are divided badly for a while.
type members struct {
	store  *Memory
	job    string // whose places these are
	shards int
	host   backends.Holder
	ttl    time.Duration
	tell   func(position position, is bool) // of every look; is: this host has a place

	warn    func(text, hint string)
	warned  map[string]bool // what was told already
	former  int             // the place that it had last
	seen    []place         // from the first on: how far a look that has not ended yet has come
	reached int             // what the last count has come to, even if it had no end
	grant   backends.Grant
	valid   time.Time // until then the lease is ours
	now     position
	counts  []counted // of the last two TTLs
}

// counted is how many members there were at a time.
type counted struct {
	at      time.Time
	members int
}

func newMembers(store *Memory, job string, n int, host backends.Holder, ttl time.Duration, tell func(position, bool), warn func(text, hint string)) *members {
	return &members{
		warn: warn, warned: map[string]bool{},
		store: store, job: Members(job), shards: n, host: host, ttl: ttl, tell: tell,
		former: nowhere, now: position{place: nowhere},
	}
}

// keep takes a place and keeps it until ctx ends, and then gives it back. It takes another one if it loses its place. It returns
// an error if this host cannot be a member.
func (m *members) keep(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := m.join(ctx); err != nil {
			return err
		}
		if m.now.place != nowhere {
			if err := m.stay(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// join takes the lowest free place: this host's former one if that is free. It returns without one when ctx ends. Where a store is
// too slow for all who come, each look goes on where the last one broke off, and is later than that: if all began anew, the store
// would never have served them.
func (m *members) join(ctx context.Context) error {
	m.counts, m.now.ready = nil, false
	m.seen, m.reached = nil, 0
	m.now.members = 0 // no look has succeeded yet
	shortest := m.ttl / 12
	for wait := shortest; ctx.Err() == nil; wait = min(2*wait, m.ttl/3) {
		limited, cancel := context.WithTimeout(ctx, m.ttl) // else a connection that is dead could keep us for long
		places, err := lookOn(limited, m.store, m.job, m.seen)
		cancel()
		m.seen = places
		if errors.Is(err, errCrowd) {
			m.warnOnce(m.job, fmt.Sprintf("%s: this host waits for a place: %v", m.job, err), "`leaderrun forget` removes the records of places that nobody has")
		}
		if different := m.fits(places); different != nil {
			return different
		}
		if err == nil {
			if err = m.claimOne(ctx, places); err == nil {
				m.seen = nil
			}
		}
		if isFinal(err) || err == nil {
			return err
		}
		if r, ok := errors.AsType[*backends.Refusal](err); ok { // of a store that grants nothing yet
			m.warnOnce("quarantine", runner.QuarantineText(r.Wait), "")
			sleep(ctx, min(r.Wait, m.ttl)) // then all come together, and know of each other before they take shards
			wait = shortest
		}
		sleep(ctx, jittered(wait))
	}
	return nil
}

// warnOf tells of a place whose record cannot be read, once: it counts as taken.
func (m *members) warnOf(i int, damage error) {
	if damage != nil {
		name := slots.Name(m.job, i)
		m.warnOnce(name, fmt.Sprintf("%s counts as taken: %v", name, damage), remedy.Of(damage))
	}
}

func (m *members) warnOnce(what, text, hint string) {
	if !m.warned[what] {
		m.warned[what] = true
		m.warn(text, hint)
	}
}

// claimOne claims free places, one after the other, until it has one. Those above the last that was looked at are free, too, unless
// many have come meanwhile.
func (m *members) claimOne(ctx context.Context, places []place) error {
	if m.former < len(places) && m.former >= 0 && !places[m.former].taken() && m.claim(ctx, m.former) == nil {
		return nil
	}
	for i := range slots.Most {
		if i < len(places) && places[i].taken() {
			m.warnOf(i, places[i].damage)
			continue
		}
		err := m.claim(ctx, i)
		refusal, refused := errors.AsType[*backends.Refusal](err)
		if !refused || refusal.Verdict == backends.Quarantined {
			return err
		}
	}
	return errCrowd
}

func (m *members) claimOf(i int) backends.Claim {
	return backends.Claim{Job: slots.Name(m.job, i), Holder: m.host, TTL: m.ttl, Trigger: backends.Trigger{Parts: m.shards}}
}

// claim takes one place.
func (m *members) claim(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, m.ttl/3)
	defer cancel()
	sent := time.Now()
	g, err := m.store.claim(ctx, m.claimOf(i))
	if backends.IsDamage(err) {
		m.warnOf(i, err)
		return &backends.Refusal{Verdict: backends.Held}
	}
	if err != nil {
		return err
	}
	m.grant, m.valid, m.former = g, sent.Add(g.TTL), i
	m.now.place = i
	return nil
}

// stay keeps the place. It returns when that is lost, or when ctx has ended and the place is given back.
func (m *members) stay(ctx context.Context) error {
	err := m.look(ctx, true)
	for {
		switch {
		case isFinal(err), ctx.Err() != nil:
			m.leave()
			if !isFinal(err) {
				err = nil
			}
			return err
		case errors.Is(err, backends.ErrLost):
			m.lost()
			return nil
		case !time.Now().Before(m.valid): // a store that lives as long as this process must hear of it
			m.leave()
			return nil
		}
		wait := min(jittered(m.ttl/3), m.untilEnd())
		if err != nil { // what had no answer is tried again soon, as long as the lease lasts
			wait = m.ttl / 12
		}
		if sleep(ctx, wait); ctx.Err() != nil {
			continue
		}
		if err = m.renew(ctx); err == nil {
			first := m.now.members == 0
			m.now.ready = !first
			err = m.look(ctx, first)
		}
	}
}

// untilEnd returns after what time one of the places that this host looks at may be free if its holder is dead.
func (m *members) untilEnd() time.Duration {
	from, to := m.reached-1, m.reached
	if m.now.place == from {
		from, to = 0, from
	}
	left := never
	for i := from; i < to; i++ {
		left = min(left, m.store.untilEnd(slots.Name(m.job, i)))
	}
	return max(left, m.ttl/30) // many may have died
}

func (m *members) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.ttl/3)
	defer cancel()
	sent := time.Now()
	signal, err := m.store.Renew(ctx, m.grant)
	if backends.IsDamage(err) { // another place serves as well
		m.warnOf(m.now.place, err)
		return backends.ErrLost
	}
	if err != nil {
		return err
	}
	m.valid = sent.Add(m.grant.TTL)
	if signal.Break != nil { // an operator wants this place to be free
		m.leave()
		return backends.ErrLost
	}
	return nil
}

// leave gives the place back.
func (m *members) leave() {
	m.lost()
	briefly(m.ttl, func(ctx context.Context) { _ = m.store.Finish(ctx, m.grant, backends.Outcome{State: backends.Done}) })
}

// lost notes that this host has no place.
func (m *members) lost() {
	m.now.place = nowhere
	m.tell(m.now, false)
}

// briefly makes a request that nobody waits for long: a lease that nobody renews runs out.
func briefly(ttl time.Duration, request func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), ttl/3)
	defer cancel()
	request(ctx)
}

// look finds out how many members there are. The first look of a newcomer that succeeds is at all places, because another one with another number of
// shards may have come at the same time. The member in the last place looks at all below it, for a free one, and moves there. Where the
// number has fallen, those who may be last soon look, too: a store may prove by silence that the one before them is dead, and so the
// silence counts for all of them at a time.
func (m *members) look(ctx context.Context, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, m.ttl/3)
	defer cancel()
	own := m.now.place
	var err error
	if first {
		if m.seen, err = lookOn(ctx, m.store, m.job, m.seen); err == nil {
			m.reached = max(own+1, membersAmong(m.seen))
		}
	} else {
		m.reached, err = count(m.reached, own, func(i int) (place, error) {
			p, err := m.lookAt(ctx, i)
			m.warnOf(i, p.damage)
			return p, err
		})
		soonLast := m.reached < m.now.members && own >= m.reached-lookers
		if err == nil && (m.reached == own+1 || soonLast) {
			m.seen, err = lookUpTo(ctx, m.store, m.job, m.seen, own)
		}
	}
	below := m.seen[:min(own, len(m.seen))]
	if different := m.fits(below); different != nil {
		return different
	}
	if err != nil {
		return err
	}
	n := m.reached
	m.seen = nil
	if len(below) == own {
		m.now.damaged = nil
		for i, p := range below {
			if p.damage != nil {
				m.now.damaged = append(m.now.damaged, i)
				m.warnOf(i, p.damage)
			}
		}
	}
	moved := m.moveDown(ctx, n, below)
	for i, p := range below {
		if p.dead && i != m.now.place && m.store.Limits().BySilence {
			m.store.free(ctx, m.claimOf(i)) // who moves there next need not wait
		}
	}
	if moved { // there may be another number of members now
		return m.look(ctx, false)
	}
	m.count(n)
	m.tell(m.now, true)
	return nil
}

// moveDown moves this host to a free place below its own, if the rule says so. It returns whether it has moved.
func (m *members) moveDown(ctx context.Context, n int, below []place) bool {
	old := m.grant
	var free []int
	for i, p := range below {
		if !p.taken() {
			free = append(free, i)
		}
	}
	for _, i := range gapsFor(m.now.place, n, free) {
		if m.claim(ctx, i) != nil {
			continue
		}
		briefly(m.ttl, func(ctx context.Context) { _ = m.store.Finish(ctx, old, backends.Outcome{State: backends.Done}) })
		return true
	}
	return false
}

// settling is for how many TTLs a host must be seen before anybody ends a run for it. A host that is killed and comes again has two
// places until the old one's lease has run out and it has moved there, which takes a TTL and a look.
const settling = 2

// count notes how many members there are.
func (m *members) count(n int) {
	now := time.Now()
	since := now.Add(-settling * m.ttl)
	m.counts = append(m.counts, counted{now, n})
	for len(m.counts) > 1 && !m.counts[1].at.After(since) { // the first one held until the second
		m.counts = m.counts[1:]
	}
	m.now.members, m.now.settled = n, 0
	if !m.counts[0].at.After(since) {
		m.now.settled = slices.MinFunc(m.counts, func(a, b counted) int { return cmp.Compare(a.members, b.members) }).members
	}
}

// isFinal says whether nothing mends an error.
func isFinal(err error) bool {
	_, differs := errors.AsType[*Differs](err)
	return differs || backends.IsPermanent(err)
}

// jittered returns about so long: hosts that started together do not ask together.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + mathrand.N(d/5+1) //nolint:gosec // not a secret
}
