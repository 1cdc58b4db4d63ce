package shards

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Leases is the store that keeps the leases.
type Leases interface {
	backends.Driver
	Store
}

// Remember returns a store that remembers which sign of life of a holder it has seen, and since when. Some stores prove by silence
// that a holder is dead. There a claim counts the silence from the first look, whatever the look was for. So many shards of a dead
// host take one TTL to be taken over, and not one each.
func Remember(store Leases) Leases { return &memory{Leases: store, seen: map[string]sight{}} }

type memory struct {
	Leases

	mu   sync.Mutex
	seen map[string]sight // by job
}

// sight is a sign of life, and when it was first seen.
type sight struct {
	backends.LastSeen
	at time.Time
}

// Inspect implements Leases.
func (m *memory) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, err := m.Leases.Inspect(ctx, job)
	if r := &s.Record; err == nil && r.Token != 0 {
		m.note(job, backends.LastSeen{Token: r.Token, Beat: r.Beat})
	}
	return s, err
}

// Acquire implements backends.Driver.
func (m *memory) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
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

func (m *memory) note(job string, seen backends.LastSeen) {
	seen.For = 0
	if seen.Token == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[job].LastSeen != seen {
		m.seen[job] = sight{seen, time.Now()}
	}
}
