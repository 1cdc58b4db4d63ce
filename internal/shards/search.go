package shards

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/slots"
)

const hints = 64 // how many news are kept

// discovery is what a search has found.
type discovery struct {
	all  bool    // it looked at all shards, or at as many as it needed
	free []int   // nobody has these, and those come last whose holders may be alive
	held []owner // those that somebody has
}

// owner is who has a shard.
type owner struct {
	shard   int
	host    string
	pid     int
	granted int64
	rank    int // how many shards the holder has that are not younger
}

// search begins a search for so many shards that nobody has: among those of which there were news, or else among all.
func (b *balancer) search(need int) {
	all := len(b.hints) == 0
	order := b.hints
	if all {
		order = rand.Perm(b.Shards) //nolint:gosec // so that hosts do not meet
	}
	order = slices.DeleteFunc(order, func(shard int) bool { return b.tasks[shard] != nil })
	b.hints, b.searching = nil, true
	panics.Go(func() {
		d := b.lookAmong(order, need)
		d.all = all
		b.found <- d
	})
}

// lookAmong looks at shards until enough are found. What cannot be looked at is left out.
func (b *balancer) lookAmong(order []int, need int) discovery {
	ctx, cancel := context.WithTimeout(b.life, b.TTL)
	defer cancel()
	var mu sync.Mutex
	var d discovery
	var vanished []int
	_ = together(len(order), func(i int) error {
		s, err := b.Store.Inspect(ctx, slots.Name(b.Job, order[i]))
		if err != nil && !errors.Is(err, backends.ErrUnknownJob) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch r := &s.Record; {
		case s.Lease != nil:
			d.held = append(d.held, owner{shard: order[i], host: r.Holder.Host, pid: r.Holder.PID, granted: r.Granted})
		case s.Wait > 0:
			vanished = append(vanished, order[i])
		default:
			d.free = append(d.free, order[i])
		}
		if len(d.free) >= need {
			return errEnough
		}
		return nil
	})
	d.free = append(d.free, vanished...)
	return d
}

var errEnough = errors.New("enough is found")

// finds starts what a search has found. If that is not enough, the next search comes later, or when there is news of the shards
// that will probably be given up next.
func (b *balancer) finds(d discovery) {
	b.searching = false
	if b.leaving || !b.member {
		return
	}
	start, _ := b.next()
	found := 0
	for _, shard := range d.free {
		if found == start || b.tasks[shard] != nil {
			break
		}
		b.start(shard, 0)
		found++
	}
	if !d.all {
		return
	}
	if found > 0 {
		b.fruitless = 0
	}
	if found == start {
		return
	}
	b.fruitless = min(max(2*b.fruitless, b.TTL/3), b.TTL)
	b.searchAt = time.Now().Add(jittered(b.fruitless))
	b.watch(d.held)
}

// watch watches the shards that will probably be given up next: the youngest of those who have most.
func (b *balancer) watch(held []owner) {
	b.stopWatch()
	ctx, cancel := context.WithCancel(b.life)
	b.endWatch = cancel
	for _, o := range likeliest(held)[:min(len(held), watchers)] {
		news, err := b.Store.Watch(ctx, slots.Name(b.Job, o.shard))
		if err != nil {
			return
		}
		panics.Go(func() {
			stands := false // the first news are that it does
			for n := range news {
				if n.Look && stands {
					select {
					case b.news <- o.shard:
					case <-ctx.Done():
					}
				}
				stands = stands || n.Look
			}
		})
	}
}

// likeliest sorts shards by how many their holder has when it gives this one up, most first: the younger ones go before it.
func likeliest(held []owner) []owner {
	left := map[backends.Holder]int{}
	who := func(o owner) backends.Holder { return backends.Holder{Host: o.host, PID: o.pid} }
	rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	slices.SortStableFunc(held, func(a, b owner) int { return cmp.Compare(a.granted, b.granted) })
	for i := range held { // from the oldest on: before a holder gives this one up, it gives up all that are younger
		left[who(held[i])]++
		held[i].rank = left[who(held[i])]
	}
	slices.SortStableFunc(held, func(a, b owner) int { return cmp.Compare(b.rank, a.rank) })
	return held
}

func (b *balancer) stopWatch() {
	if b.endWatch != nil {
		b.endWatch()
		b.endWatch = nil
	}
}
