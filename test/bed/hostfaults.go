package bed

import (
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
)

// HostFaults are what can happen to a host: to its network, to its processes, to the machine.
var HostFaults = slices.Concat(networkFaults, processFaults, machineFaults)

// networkFaults happen between one host and all others. Where they go on for longer than a TTL no renewal can have come
// through, but for two: a connection that is silent, and one that was reset, is replaced by another.
var networkFaults = []Fault{
	network("packets lost", func(b *Bed, host string) (func() error, error) {
		return b.Net.Lose(host, hosts.Requests, hosts.Replies)
	}),
	network("requests lost", func(b *Bed, host string) (func() error, error) {
		return b.Net.Lose(host, hosts.Requests)
	}),
	network("replies lost", func(b *Bed, host string) (func() error, error) {
		return b.Net.Lose(host, hosts.Replies)
	}),
	network("connections rejected", func(b *Bed, host string) (func() error, error) {
		return b.Net.Reject(host)
	}),
	network("requests late", func(b *Bed, host string) (func() error, error) {
		return b.Net.Detour(host).DelayRequests(b.late())
	}),
	network("replies late", func(b *Bed, host string) (func() error, error) {
		return b.Net.Detour(host).DelayReplies(b.late())
	}),
	{
		Name: "connections silent", Network: true, Whole: true, Peers: true,
		Strike: func(b *Bed, v Victim) (func() error, error) { return b.Net.Silence(v.Host) },
	},
	{
		Name: "connections reset", Network: true, Whole: true, Peers: true, Once: true,
		Strike: func(b *Bed, v Victim) (func() error, error) { return nil, b.Net.Reset(v.Host) },
	},
	{
		// A peer is told addresses.
		Name: "no names", Network: true, Whole: true,
		Strike: func(b *Bed, v Victim) (func() error, error) { return b.Net.Mute(v.Host) },
	},
}

// network is a fault that leaves no renewal through.
func network(name string, strike func(b *Bed, host string) (mend func() error, err error)) Fault {
	return Fault{
		Name: name, Network: true, Whole: true, Kills: true, Peers: true,
		Strike: func(b *Bed, v Victim) (func() error, error) { return strike(b, v.Host) },
	}
}

// late is how late a message has to be to be most dangerous: it still comes while the lease lasts that it is about, and
// whoever takes that for the lease's begin lives on after its end.
func (b *Bed) late() time.Duration { return b.Store.TTL - time.Second }
