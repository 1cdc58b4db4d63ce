package bed

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/waits"
)

// patience is how long a store may take to be whole again, on a machine that is busy with other things.
var patience = waits.Patience

// server is what the servers of all stores have in common.
type server interface {
	Signal(s syscall.Signal) error
	Kill()
	Ended() bool
	PID() int
	Addr() string
	Data() string
	Answers() error
	Restart(t testing.TB, keepData bool)
}

// site is the servers of a store, each on a host of its own.
type site struct {
	net      *hosts.Network
	hosts    []string
	servers  []server
	agree    func() error              // whether all follow one leader; nil: there is none
	leader   func(t testing.TB) server // only where they are some
	election time.Duration             // how long the others may take for another leader
	// revive starts all servers again, with their data, when they hang for long; nil: these do not.
	revive func(t testing.TB, keepData bool)
}

func siteOf(n *hosts.Network, s server) *site {
	return &site{net: n, hosts: oneHost, servers: []server{s}}
}

// siteOfMany is members that elect one of them, within a time.
func siteOfMany[S server](n *hosts.Network, members []S, leader func(t testing.TB) S, agree func() error, election time.Duration) *site {
	x := &site{net: n, hosts: threeHosts, agree: agree, election: election}
	for _, m := range members {
		x.servers = append(x.servers, m)
	}
	x.leader = func(t testing.TB) server { return leader(t) }
	return x
}

// onThree are the options of three members, each at its host.
func onThree[Options any](n *hosts.Network, at func(at servers.At) Options) (all []Options) {
	for _, host := range threeHosts {
		all = append(all, at(n.At(host)))
	}
	return all
}

// running returns the store as clients see it, without its faults: the URL has what comes before and after the servers, by
// name.
func (x *site) running(before, after string) *Running {
	var addrs []string
	for _, s := range x.servers {
		addrs = append(addrs, s.Addr())
	}
	return x.runningAt(addrs, before, after)
}

// runningAt is running for clients who ask others on the same hosts.
func (x *site) runningAt(addrs []string, before, after string) *Running {
	x.net.Resolve(Hosts...)
	var named []string
	for i, addr := range addrs {
		_, port, _ := strings.Cut(addr, ":")
		named = append(named, net.JoinHostPort(x.hosts[i]+".test", port))
	}
	return &Running{Addrs: addrs, URL: before + strings.Join(named, ",") + after}
}

// fault is one of the store that goes on until it is mended: what strike returns ends it, nil if nothing has to, and then all
// servers have to be whole again.
func (x *site) fault(f Fault, strike func(b *Bed) (undo func() error, err error)) Fault {
	f.OnServer = true
	f.Strike = func(b *Bed, _ Victim) (func() error, error) {
		undo, err := strike(b)
		mend := func() error {
			if undo != nil {
				if err := undo(); err != nil {
					return err
				}
			}
			return x.whole(b.T)
		}
		if err != nil {
			return nil, errors.Join(err, mend())
		}
		return mend, nil
	}
	return f
}

// whole waits until all servers serve. One that has ended is started with the data that it has.
func (x *site) whole(t testing.TB) error {
	t.Helper()
	var last error
	revive := x.revive
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if revive != nil && time.Until(end) < patience/2 {
			t.Logf("the store hangs (%v), and all its servers are started again", last)
			revive(t, true)
			revive = nil
		}
		for _, s := range x.servers {
			if s.Ended() {
				s.Restart(t, true)
			}
		}
		if last = x.ask(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("the store is not whole after %v: %w", patience, last)
}

func (x *site) ask() error {
	errs := make([]error, len(x.servers))
	var asked sync.WaitGroup
	for i, s := range x.servers {
		asked.Go(func() {
			if err := s.Answers(); err != nil {
				errs[i] = fmt.Errorf("%s: %w", x.hosts[i], err)
			}
		})
	}
	asked.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if x.agree == nil {
		return nil
	}
	return x.agree()
}

// leads returns the number of the server that leads.
func (x *site) leads(t testing.TB) int {
	t.Helper()
	return slices.Index(x.servers, x.leader(t))
}
