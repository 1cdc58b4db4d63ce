package bed

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
)

// join puts lists of faults together.
func join(lists ...[]Fault) []Fault { return slices.Concat(lists...) }

// target is which servers of a site a fault hits, by number.
type target struct {
	name string
	pick func(b *Bed, x *site) []int
}

var (
	theServer = target{"server", func(*Bed, *site) []int { return []int{0} }}
	theLeader = target{"leader", func(b *Bed, x *site) []int { return []int{x.leads(b.T)} }}
	aFollower = target{"follower", func(b *Bed, x *site) []int { return x.followers(b, 1) }}
	mostOfAll = target{"majority", func(b *Bed, x *site) []int {
		leader := x.leads(b.T)
		return append(x.followers(b, len(x.servers)/2), leader)
	}}
)

// followers returns so many servers that do not lead.
func (x *site) followers(b *Bed, n int) []int {
	leader := x.leads(b.T)
	all := slices.DeleteFunc(b.Chance.Perm(len(x.servers)), func(i int) bool { return i == leader })
	return all[:n]
}

// faultsOfOne are those of a store that is one server.
func (x *site) faultsOfOne(ttl time.Duration) []Fault {
	return join([]Fault{
		x.stopped(theServer), x.killed(theServer), x.dropped(theServer),
	}, pastLease(ttl, x.stopped(theServer), x.dropped(theServer)))
}

// faultsOfMany are those of a store whose servers elect one of them.
func (x *site) faultsOfMany(ttl time.Duration) []Fault {
	return join([]Fault{
		x.stopped(theLeader), x.killed(theLeader), x.dropped(theLeader), x.cutOff(),
		x.stopped(aFollower), x.killed(aFollower), x.dropped(aFollower),
		x.stopped(mostOfAll),
	}, pastLease(ttl, x.stopped(mostOfAll)))
}

// pastLease makes faults that let nobody renew go on until no lease from before them can count any more.
func pastLease(ttl time.Duration, faults ...Fault) []Fault {
	for i := range faults {
		f := &faults[i]
		f.Name += " past the lease"
		f.Kills = true
		f.AtLeast = ttl + 2*time.Second
	}
	return faults
}

// atLeast is how long a fault has to go on: until the others have another leader, if the leader was hit.
func (x *site) atLeast(who target) time.Duration {
	if who.name == theLeader.name {
		return x.election
	}
	return 0
}

// hit is a fault of some servers, by their numbers.
func (x *site) hit(who target, what string, strike func(b *Bed, hit []int) (undo func() error, err error)) Fault {
	return x.fault(Fault{Name: who.name + " " + what, Peers: true, AtLeast: x.atLeast(who)}, func(b *Bed) (func() error, error) {
		return strike(b, who.pick(b, x))
	})
}

// stopped is a server that hangs.
func (x *site) stopped(who target) Fault {
	return x.hit(who, "stopped", func(_ *Bed, hit []int) (func() error, error) {
		return func() error { return x.signal(hit, syscall.SIGCONT) }, x.signal(hit, syscall.SIGSTOP)
	})
}

func (x *site) signal(hit []int, sig syscall.Signal) error {
	for _, i := range hit {
		if err := x.servers[i].Signal(sig); err != nil {
			return fmt.Errorf("%s: %w", x.hosts[i], err)
		}
	}
	return nil
}

// killed is a server that ends without a word, and returns with its data.
func (x *site) killed(who target) Fault {
	return x.hit(who, "killed", func(_ *Bed, hit []int) (func() error, error) {
		for _, i := range hit {
			x.servers[i].Kill()
		}
		return nil, nil
	})
}

// dropped is a server whose packets vanish, both ways.
func (x *site) dropped(who target) Fault {
	return x.hit(who, "off the network", func(b *Bed, hit []int) (func() error, error) {
		var heal []func() error
		undo := func() error {
			for _, h := range heal {
				if err := h(); err != nil {
					return err
				}
			}
			return nil
		}
		for _, i := range hit {
			h, err := b.Net.Lose(x.hosts[i], hosts.Requests, hosts.Replies)
			if err != nil {
				return undo, err
			}
			heal = append(heal, h)
		}
		return undo, nil
	})
}

// cutOff is a leader that its clients reach, and the other members do not.
func (x *site) cutOff() Fault {
	return x.hit(theLeader, "cut off from the others", func(b *Bed, hit []int) (func() error, error) {
		leader := hit[0]
		b.Net.Cut(x.hosts[leader], slices.Delete(slices.Clone(x.hosts), leader, leader+1)...)
		return func() error { b.Net.Heal(x.hosts[leader]); return nil }, nil
	})
}
