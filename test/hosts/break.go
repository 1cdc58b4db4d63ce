package hosts

import (
	"fmt"
	"strings"
)

// The faults of this package that go on return what mends them. They may overlap: each has a packet filter of its own.
// None of them ends the test by itself, so that they can come from any goroutine.

// Way is a direction that packets take, as a host sees it.
type Way string

// The ways.
const (
	Requests Way = "iifname" // what the host sends; the switch takes it in
	Replies  Way = "oifname" // what the host is sent
)

// Lose has the switch lose the packets from a host, to it, or both. The host is told nothing, and still knows who has
// which address.
func (n *Network) Lose(host string, ways ...Way) (mend func() error, err error) {
	var rules strings.Builder
	for _, way := range ways {
		fmt.Fprintf(&rules, "%s { \"to-%s\", \"far-%s\" } meta protocol ip drop\n", way, host, host)
	}
	return n.filter(hub, "bridge", chain("forward", rules.String()))
}

// Reject has a host refuse every TCP connection to the others, and reset those that it has when they say something.
func (n *Network) Reject(host string) (mend func() error, err error) {
	return n.filter(host, "inet", chain("output", "oifname eth0 meta l4proto tcp reject with tcp reset\n"))
}

// Silence leaves a host's TCP connections open, and lets nothing through on them any more. New ones work.
func (n *Network) Silence(host string) (mend func() error, err error) {
	// A connection is new if its first packet is seen. What is known of it by then does not matter: it has no mark.
	const mark = "tcp flags & (syn | ack) == syn ct mark set 1\n"
	return n.filter(host, "inet",
		chain("output", "oifname eth0 "+mark+"oifname eth0 meta l4proto tcp ct mark != 1 drop\n"),
		chain("input", "iifname eth0 "+mark+"iifname eth0 meta l4proto tcp ct mark != 1 drop\n"))
}

// Reset ends all TCP connections of a host with the others. Both ends are told. New ones work.
func (n *Network) Reset(host string) error {
	return feed("", append(n.Where(host), "ss", "-tK", "dst", "198.18.0.0/15")...)
}

func chain(hook, rules string) string {
	return "chain " + hook + " {\ntype filter hook " + hook + " priority 0\n" + rules + "}\n"
}

// filter puts a table of nft(8) of its own into a host.
func (n *Network) filter(host, family string, chains ...string) (mend func() error, err error) {
	table := fmt.Sprintf("%s fault%d", family, n.tables.Add(1))
	nft := append(n.Where(host), "nft")
	text := "table " + table + " {\n" + strings.Join(chains, "") + "}\n"
	if err := feed(text, append(nft, "-f", "-")...); err != nil {
		return nil, err
	}
	return func() error { return feed("", append(nft, "delete table "+table)...) }, nil
}
