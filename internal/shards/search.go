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

// discovery is what a search has found.
type discovery struct {
	all  bool          // it was among all shards
	free []int         // nobody has these, and those come last that will be free at a known time
	gone []int         // nobody has these, and their holders may be alive; somebody may free them soon
	held []owner       // those that somebody has
	late time.Duration // after what time all those are free whose holders seem to be dead; 0: there are none
}

// owner is who has a shard.
type owner struct {
	shard   int
	host    string
	pid     int
	granted int64
	rank    int // how many shards the holder has that are not younger
}

// search begins a search for so many shards that nobody has.
func (b *balancer) search(need int, order []int, all bool) {
	order = slices.DeleteFunc(slices.Clone(order), func(shard int) bool { return b.tasks[shard] != nil })
	b.searching = true
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
	_ = Together(len(order), func(i int) error {
		name := slots.Name(b.Job, order[i])
		s, err := b.Store.Inspect(ctx, name)
		switch {
		case err == nil, errors.Is(err, backends.ErrUnknownJob):
		case backends.IsAnswer(err): // a record that cannot be read does not hide the others
			return nil
		default:
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch r := &s.Record; {
		case s.Lease != nil:
			d.held = append(d.held, owner{shard: order[i], host: r.Holder.Host, pid: r.Holder.PID, granted: r.Granted})
			d.late = max(d.late, b.Store.untilLapse(name, s))
		case s.Wait > 0:
			d.gone = append(d.gone, order[i])
		default:
			d.free = append(d.free, order[i])
		}
		if len(d.free) >= need {
			return errEnough
		}
		return nil
	})
	if !b.Store.Limits().BySilence {
		d.free, d.gone = append(d.free, d.gone...), nil
	}
	return d
}

var errEnough = errors.New("enough is found")

// finds starts what a search has found. If that is not enough, the next search comes later. Until then, only the shards are looked at
// that will probably be given up next. They are not watched: on some stores each watch is a connection or takes a lock.
func (b *balancer) finds(d discovery) {
	b.searching = false
	if b.leaving || !b.member {
		return
	}
	start, _ := b.next()
	found := 0
	for _, shard := range d.free {
		if found < start && b.tasks[shard] == nil {
			b.start(shard, 0)
			found++
		}
	}
	now := time.Now()
	b.glanceAt = now.Add(jittered(b.TTL / 15))
	if found > 0 {
		b.fruitless, b.searchAt = 0, now.Add(jittered(b.TTL/3))
	}
	if !d.all || found == start {
		return
	}
	b.fruitless = min(max(2*b.fruitless, b.TTL/3), b.TTL)
	b.searchAt = now.Add(jittered(b.fruitless))
	if d.late > 0 {
		b.lateAt = now.Add(max(d.late, b.TTL/30))
	}
	b.likely = d.gone
	for _, o := range likeliest(d.held) {
		b.likely = append(b.likely, o.shard)
	}
	b.likely = b.likely[:min(len(b.likely), lookers)]
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
