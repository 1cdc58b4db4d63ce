package shards

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Leases is the store that keeps the leases.
type Leases interface {
	backends.Driver
	Look(ctx context.Context, job string) (backends.Status, error)
}

// Remember returns a store that remembers which sign of life of a holder it has seen, and since when. Some stores prove by silence
// that a holder is dead. There a claim counts the silence from the first look, whatever the look was for. So many shards of a dead
// host take one TTL to be taken over, and not one each.
func Remember(store Leases) *Memory { return &Memory{Leases: store, seen: map[string]sight{}} }

// Memory is a store as Remember returns it.
type Memory struct {
	Leases

	mu   sync.Mutex
	seen map[string]sight // by job
	slow bool             // the last look was not quick
}

// sight is a sign of life, when it was first seen, and when the job may be free if it stays the last one; zero: nobody knows.
type sight struct {
	backends.LastSeen
	at, end time.Time
}

// Inspect implements Store by a look. Where death is proved by silence, Wait is what is left of the silence.
func (m *Memory) Inspect(ctx context.Context, job string) (backends.Status, error) {
	began := time.Now()
	s, err := m.Look(ctx, job)
	m.mu.Lock()
	m.slow = time.Since(began) >= quick
	m.mu.Unlock()
	r := &s.Record
	if err != nil || r.Token == 0 {
		return s, err
	}
	m.note(job, backends.LastSeen{Token: r.Token, Beat: r.Beat})
	m.mu.Lock()
	defer m.mu.Unlock()
	now, last, limits := time.Now(), m.seen[job], m.Limits()
	silence, ttl := now.Sub(last.at), time.Duration(r.TTL)*time.Millisecond
	if limits.BySilence {
		s.Wait = max(s.Wait-silence, 0)
	}
	switch {
	case s.Lease == nil:
		last.end = now.Add(s.Wait)
	case !limits.BySilence:
		last.end = now.Add(s.Lease.Left)
	case silence < ttl:
		last.end = last.at.Add(ttl)
	default:
		last.end = last.at.Add(limits.TakeOver(ttl))
	}
	m.seen[job] = last
	return s, nil
}

// isSlow says whether the store is, by the last look.
func (m *Memory) isSlow() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slow
}

// untilEnd returns after what time a job that was looked at may be free if its holder is dead, or never if that is over or unknown.
func (m *Memory) untilEnd(job string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := time.Until(m.seen[job].end)
	if left <= 0 {
		return never
	}
	return left + mathrand.N(left/10+1) //nolint:gosec // jitter: many may wait for the same
}

// untilLapse returns after what time a lease runs out that was not renewed for half of its time, where the server's clock tells: its
// holder seems to be dead. 0: it was renewed, or nobody knows. While the store is slow, renewals may be late everywhere.
func (m *Memory) untilLapse(job string, s backends.Status) time.Duration {
	limits, half := m.Limits(), time.Duration(s.Record.TTL)*time.Millisecond/2
	if limits.BySilence || limits.LocalHolders != nil || s.Lease.Left >= half || m.isSlow() {
		return 0
	}
	return min(m.untilEnd(job), half)
}

// claim makes a claim, and takes it back where nobody knows whether it has arrived: nobody would renew that lease.
func (m *Memory) claim(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if err := ctx.Err(); err != nil { // nothing was sent that would have to be taken back
		return backends.Grant{}, err
	}
	c.Holder.ID = backends.NewID()
	g, err := m.Acquire(ctx, c)
	if err != nil && !backends.IsAnswer(err) {
		briefly(c.TTL, func(ctx context.Context) { _ = m.Abandon(ctx, c) })
	}
	return g, err
}

// free frees a job whose holder is proved to be dead for everybody, who would have to see the silence for a TTL first: it claims the
// job, and gives it back without a run.
func (m *Memory) free(ctx context.Context, c backends.Claim) {
	if g, err := m.claim(ctx, c); err == nil {
		briefly(c.TTL, func(ctx context.Context) { _ = m.Finish(ctx, g, backends.Outcome{State: backends.Open}) })
	}
}

// isDead says whether the holder of a job has vanished, and is proved to be dead.
func isDead(s backends.Status) bool { return s.Lease == nil && s.Wait == 0 && !s.Record.Free() }

// Acquire implements backends.Driver.
func (m *Memory) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	m.mu.Lock()
	last, now := m.seen[c.Job], time.Now()
	m.mu.Unlock()
	silence := last.LastSeen
	if silence.Token != 0 && (c.Seen.Token == 0 || c.Seen.Token == silence.Token && c.Seen.Beat == silence.Beat) {
		silence.For = max(c.Seen.For, now.Sub(last.at))
		c.Seen = silence
	}
	g, err := m.Leases.Acquire(ctx, c)
	if refusal, ok := errors.AsType[*backends.Refusal](err); ok {
		m.note(c.Job, refusal.Seen)
	}
	return g, err
}

func (m *Memory) note(job string, seen backends.LastSeen) {
	seen.For = 0
	if seen.Token == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[job].LastSeen != seen {
		m.seen[job] = sight{LastSeen: seen, at: time.Now()}
	}
}
