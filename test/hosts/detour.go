package hosts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

// Detour is the way of a host's packets through the test's process, which can be late with them. It is taken only
// while something is to be late: the host's plug is taken out of the switch and a cable put between the two, so
// that connections do not notice it, and costs nothing else.
type Detour struct {
	n    *Network
	host string

	mu                sync.Mutex
	requests, replies lane
	plug, cable       *os.File // the sockets on both ends; nil: the detour is not taken
}

// Detour returns the detour of a host.
func (n *Network) Detour(host string) *Detour {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.detours[host]
	if d == nil {
		d = &Detour{n: n, host: host}
		n.detours[host] = d
	}
	return d
}

// DelayRequests holds back for so long what the host sends. Who connects has a connection at once: only what carries
// something is late, in its order. What is still held back when it is mended comes at once.
func (d *Detour) DelayRequests(by time.Duration) (mend func() error, err error) {
	return d.delay(&d.requests, by)
}

// DelayReplies is DelayRequests for what the host is sent.
func (d *Detour) DelayReplies(by time.Duration) (mend func() error, err error) {
	return d.delay(&d.replies, by)
}

func (d *Detour) delay(l *lane, by time.Duration) (mend func() error, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.late() {
		return nil, fmt.Errorf("%s is late already", d.host)
	}
	if d.plug == nil {
		if err := d.take(); err != nil {
			return nil, err
		}
	}
	l.set(by)
	return func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		l.set(0)
		if d.requests.late() || d.replies.late() {
			return nil
		}
		return d.leave()
	}, nil
}

// take puts the cable between the host's plug and the switch.
func (d *Detour) take() error {
	plug, near, far := "to-"+d.host, "near-"+d.host, "far-"+d.host
	if err := d.ip("link add " + far + " type veth peer name " + near + "\nlink set " + far + " up\nlink set " + near + " up\n"); err != nil {
		return err
	}
	if err := servers.Inside(d.n.Name(hub), func() (err error) {
		if d.plug, err = openWire(plug); err != nil {
			return err
		}
		d.cable, err = openWire(near)
		return err
	}); err != nil {
		return errors.Join(err, d.remove())
	}
	go d.requests.run(d.plug, d.cable)
	go d.replies.run(d.cable, d.plug)
	if err := d.ip("link set " + plug + " nomaster\nlink set " + far + " master bridge\n"); err != nil {
		return errors.Join(err, d.leave())
	}
	return nil
}

// leave is the opposite of take.
func (d *Detour) leave() error {
	return errors.Join(d.ip("link set to-"+d.host+" master bridge\n"), d.remove())
}

func (d *Detour) remove() error {
	for _, wire := range []*os.File{d.plug, d.cable} {
		_ = wire.Close() // nothing is lost but what is on the way
	}
	d.plug, d.cable = nil, nil
	return d.ip("link del far-" + d.host + "\n")
}

// ip runs some commands of ip(8) on the switch, as one program: packets are lost only between two of them.
func (d *Detour) ip(commands string) error {
	return feed(commands, "ip", "-n", d.n.Name(hub), "-batch", "-")
}

// lane is one direction of a detour.
type lane struct {
	mu    sync.Mutex
	delay time.Duration
	held  []heldFrame // in the order in which they came
}

type heldFrame struct {
	bytes []byte
	to    *os.File
	due   time.Time
}

func (l *lane) late() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay > 0
}

// set changes the delay. Without one, what is held back goes at once.
func (l *lane) set(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
	if delay == 0 {
		l.deliver(time.Time{})
	}
}

// run takes frames from one wire to another until one is closed.
func (l *lane) run(from, to *os.File) {
	b := make([]byte, 1<<17)
	for {
		size, err := from.Read(b)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err == nil {
			l.pass(b[:size], to)
		}
	}
}

func (l *lane) pass(frame []byte, to *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delay == 0 || !carries(frame) {
		_, _ = to.Write(frame) // a frame that a switch cannot pass on is lost
		return
	}
	l.held = append(l.held, heldFrame{append([]byte(nil), frame...), to, time.Now().Add(l.delay)})
	time.AfterFunc(l.delay, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.deliver(time.Now())
	})
}

// deliver passes on what is due; no time: everything is.
func (l *lane) deliver(now time.Time) {
	for len(l.held) > 0 && (now.IsZero() || !l.held[0].due.After(now)) {
		_, _ = l.held[0].to.Write(l.held[0].bytes)
		l.held = l.held[1:]
	}
}

// carries says whether a frame carries data over IPv4, or ends a connection, which must not overtake the data before.
// What makes a connection, or acknowledges, carries none.
func carries(frame []byte) bool {
	const (
		header      = wireHeader + 14 // of Ethernet
		ipv4        = 0x0800
		tcp         = 6
		finOrReset  = 1 | 4
		shortestIP  = 20
		shortestTCP = 20
	)
	if len(frame) < header+shortestIP || binary.BigEndian.Uint16(frame[header-2:]) != ipv4 {
		return false
	}
	packet := frame[header:]
	if packet[9] != tcp {
		return true
	}
	total, ip := int(binary.BigEndian.Uint16(packet[2:])), int(packet[0]&15)*4
	if len(packet) < ip+shortestTCP {
		return false
	}
	segment := packet[ip:]
	return total > ip+int(segment[12]>>4)*4 || segment[13]&finOrReset != 0
}
