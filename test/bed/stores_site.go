package bed

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
	"github.com/leaderrun/leaderrun/test/waits"
)

// patience is how long a store may take to be whole again, on a machine that is busy with other things.
var patience = waits.AtMost(3 * time.Minute)

// server is what the servers of all stores have in common.
type server interface {
	Signal(s syscall.Signal) error
	Kill()
	Ended() bool
	PID() int
	Data() string
	Answers() error
	Restart(t testing.TB, keepData bool)
}

// site is the servers of a store, each on a host of its own.
type site struct {
	net      *hosts.Network
	hosts    []string
	servers  []server
	agree    func() error              // whether all follow one leader
	leader   func(t testing.TB) server // only where they are some
	election time.Duration             // how long the others may take for another leader
	// revive starts all servers again, with their data, when they hang for long; nil: these do not.
	revive func(t testing.TB, keepData bool)
}

func newSite[S server](n *hosts.Network, hosts []string, servers []S, agree func() error) *site {
	x := &site{net: n, hosts: hosts, agree: agree}
	for _, s := range servers {
		x.servers = append(x.servers, s)
	}
	return x
}

func siteOf(n *hosts.Network, s server) *site {
	return newSite(n, oneHost, []server{s}, func() error { return nil })
}

// running returns the store as clients see it, without its faults: the URL has what comes before and after the servers, by
// name.
func (x *site) running(before, after string, ports ...int) *Running {
	x.net.Resolve(Hosts...)
	r := &Running{}
	var named []string
	for i, host := range x.hosts {
		port := strconv.Itoa(ports[i])
		r.Addrs = append(r.Addrs, net.JoinHostPort(x.net.Address(host), port))
		named = append(named, net.JoinHostPort(host+".test", port))
	}
	r.URL = before + strings.Join(named, ",") + after
	return r
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
	return x.agree()
}

// leads returns the number of the server that leads.
func (x *site) leads(t testing.TB) int {
	t.Helper()
	return slices.Index(x.servers, x.leader(t))
}
