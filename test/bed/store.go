package bed

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/hosts"
)

// Store is a backend on a bed: how it is started, and what can happen to it.
type Store struct {
	Name    string
	Members []string // the hosts of its servers; none: file
	TTL     time.Duration
	// Peer is the way of a peer that keeps its lock in the same store; nil: there is none.
	Peer *Way
	// Start starts the servers on their hosts.
	Start func(t testing.TB, n *hosts.Network) *Running
}

// Running is a store that runs.
type Running struct {
	// URL is the backend of a host.
	URL string
	// Faults are those of the servers; each has OnServer.
	Faults []Fault
	// Addrs are the servers' addresses, HOST:PORT, as a peer wants them.
	Addrs []string
	// Quarantine is how long the store waits after something happened to it before it grants anything; 0: it does not.
	Quarantine time.Duration
	// Dir is where a store without servers keeps its files; "": it has servers.
	Dir string
}

// Way is a program that runs a command under a lock: leaderrun, or a peer.
type Way struct {
	Name string
	// Ticks: it knows ticks, tokens, and a guardian.
	Ticks bool
	// Longest is how long its lock may outlive its holder, where that is longer than the TTL of the store says.
	Longest time.Duration
	// Words come before the command.
	Words func(s *Running, job string, ttl time.Duration) []string
}
