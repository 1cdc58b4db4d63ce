package shards

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/slots"
)

// Where death is proved by silence, a shard of a dead host is granted only to a host that has seen its last sign of life a TTL ago. So
// each host looks every TTL/3 at the shards beside its own: after each of its own, those that another host has in a row. So each
// shard is looked at by one host that does not run it. The host that has the proof frees the shard for everybody: it claims the shard
// and gives it back.

// besides is which shards are beside those of a host, and when it is to look at them again.
type besides struct {
	shards []int
	found  time.Time // when they were found
	silent bool      // the holder of one may be dead: as long as that is open, no others are looked for
	next   time.Time
}

// errSlow breaks a look off.
var errSlow = errors.New("the store is slow")

// lookBeside begins a look at the shards beside those of this host if that is due, and returns for how long it is not. Which they are
// is found anew every TTL. A host without a place does not look. Nor does one that has just come: where all come at once, nothing runs
// yet that could be lost.
func (b *balancer) lookBeside(now time.Time) time.Duration {
	if b.lookingBeside || !b.member || b.position.settled == 0 || !b.Store.Limits().BySilence {
		return never
	}
	if wait := b.beside.next.Sub(now); wait > 0 {
		return wait
	}
	if b.Store.isSlow() { // nobody needs these looks: they must not keep the renewals of leases from the store
		wait := jittered(b.TTL / 3)
		b.beside.next = now.Add(wait)
		return wait
	}
	b.lookingBeside = true
	beside, place, own := b.beside, b.position.place, map[int]bool{}
	for shard := range b.tasks {
		own[shard] = true
	}
	panics.Go(func() {
		ctx, cancel := context.WithTimeout(b.life, b.TTL/3)
		defer cancel()
		if age := now.Sub(beside.found); age < b.TTL || beside.silent && age < 3*b.TTL {
			_ = Together(len(beside.shards), func(i int) error {
				_, err := b.lookAfter(ctx, beside.shards[i])
				return err
			})
		} else if shards, err := b.findBeside(ctx, own, place); err == nil {
			beside.shards, beside.found = shards, now
		}
		wait := never
		for _, shard := range beside.shards {
			wait = min(wait, b.Store.untilEnd(slots.Name(b.Job, shard)))
		}
		beside.silent = wait < b.TTL/2
		rest := min(16*time.Since(now), b.TTL*2/3) // where the store gets slow, renewals go first
		beside.next = time.Now().Add(max(min(wait, jittered(b.TTL/3)), b.TTL/30, rest))
		b.lookedBeside <- beside
	})
	return never
}

// findBeside finds the shards beside a host's own, and looks after them. A host without any begins at its place.
func (b *balancer) findBeside(ctx context.Context, own map[int]bool, place int) ([]int, error) {
	var before []int
	for shard := range own {
		before = append(before, shard)
	}
	if len(own) == 0 {
		before = []int{place - 1}
	}
	var mu sync.Mutex
	var beside []int
	err := Together(len(before), func(i int) error {
		var whose owner
		for k := range b.Shards {
			shard := (before[i] + 1 + k) % b.Shards
			if own[shard] {
				break
			}
			s, err := b.lookAfter(ctx, shard)
			if err != nil {
				return err
			}
			if s.Lease != nil {
				next := owner{host: s.Record.Holder.Host, pid: s.Record.Holder.PID}
				if whose != (owner{}) && next != whose {
					break
				}
				whose = next
			}
			mu.Lock()
			beside = append(beside, shard)
			mu.Unlock()
		}
		return nil
	})
	return beside, err
}

// lookAfter looks at a shard, and frees it if its holder is proved to be dead.
func (b *balancer) lookAfter(ctx context.Context, shard int) (backends.Status, error) {
	name := slots.Name(b.Job, shard)
	s, err := b.Store.Inspect(ctx, name)
	switch {
	case backends.IsAnswer(err): // a record that cannot be read does not hide the others
		return s, nil
	case err == nil && b.Store.isSlow():
		return s, errSlow
	case err == nil && isDead(s):
		b.Store.free(ctx, backends.Claim{Job: name, Holder: b.Host, TTL: b.TTL, Trigger: backends.Trigger{Parts: b.Shards}})
	}
	return s, err
}
