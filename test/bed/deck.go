package bed

import (
	"math/rand/v2"
	"time"
)

// turn is what happens next. It depends on the seed and on the turns before, and on nothing that happened.
type turn struct {
	first, second Fault
	both          bool // the second one strikes, elsewhere, while the first one goes on
	host, other   int  // of Hosts
	atHolder      bool // not at host, but where the worker runs
	length        time.Duration
	between       time.Duration // from the first to the second
	rest          time.Duration // before the next turn, so that faults come at any point of a lease
}

// deck deals turns.
type deck struct {
	chance *rand.Rand
	all    []Fault
	ttl    time.Duration
	next   []int
}

// fault draws from all faults at random, each as often as the others.
func (d *deck) fault() Fault {
	if len(d.next) == 0 {
		d.next = d.chance.Perm(len(d.all))
	}
	f := d.all[d.next[0]]
	d.next = d.next[1:]
	return f
}

func (d *deck) deal(together bool) turn {
	t := turn{
		first: d.fault(), host: d.chance.IntN(len(Hosts)), atHolder: d.chance.IntN(4) > 0,
		both: d.chance.IntN(4) == 0 && together, rest: d.upTo(d.ttl / 2),
	}
	// Sometimes a lease outlasts the fault, mostly none does.
	if d.chance.IntN(3) > 0 {
		t.length = d.ttl*5/4 + d.upTo(d.ttl*5/4)
	} else {
		t.length = t.first.AtLeast + d.upTo(d.ttl*2/3)
	}
	t.between, t.other = d.upTo(t.length), (t.host+1+d.chance.IntN(len(Hosts)-1))%len(Hosts)
	if t.both {
		t.second = d.fault()
		t.both = !t.first.OnServer && !t.second.OnServer
	}
	return t
}

func (d *deck) upTo(most time.Duration) time.Duration {
	return time.Duration(d.chance.Int64N(int64(most)))
}
