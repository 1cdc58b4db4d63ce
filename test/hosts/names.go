package hosts

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/leaderrun/leaderrun/test/servers"
)

// names is a name server: host s is s.test.
type names struct {
	n    *Network
	conn *net.UDPConn

	mu      sync.Mutex
	mute    map[string]bool // addresses that are not answered
	ignored int
}

// Resolve starts a name server, once, which knows host s as s.test, and has programs ask it that are started on these
// hosts from now on.
func (n *Network) Resolve(hosts ...string) {
	n.t.Helper()
	if n.names == nil {
		n.serveNames()
	}
	for _, host := range hosts {
		// See ip-netns(8): what is in there takes the place of what is in /etc.
		dir := filepath.Join("/etc/netns", n.Name(host))
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as /etc is
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { _ = os.RemoveAll(dir) })
		text := "nameserver " + n.nameServer() + "\n"
		if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte(text), 0o644); err != nil { //nolint:gosec // as /etc is
			n.t.Fatal(err)
		}
	}
}

// Mute has the name server leave what a host asks without an answer.
func (n *Network) Mute(host string) (mend func() error, err error) {
	if n.names == nil {
		return nil, fmt.Errorf("%s asks for no names", host)
	}
	n.names.turn(n.Address(host), true)
	return func() error { n.names.turn(n.Address(host), false); return nil }, nil
}

func (n *Network) nameServer() string { return fmt.Sprintf("198.18.%d.254", n.n) }

func (n *Network) serveNames() {
	n.t.Helper()
	const host = "names"
	n.attach(host, n.nameServer())
	d := &names{n: n, mute: map[string]bool{}}
	if err := servers.Inside(n.Name(host), func() (err error) {
		d.conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(n.nameServer()), Port: 53})
		return err
	}); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = d.conn.Close() })
	n.names = d
	go d.serve()
}

func (d *names) turn(address string, mute bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mute[address] = mute
}

// hears says whether an asker is answered.
func (d *names) hears(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mute[address] {
		d.ignored++
		return false
	}
	return true
}

func (d *names) serve() {
	b := make([]byte, 512)
	for {
		size, from, err := d.conn.ReadFromUDP(b)
		if err != nil {
			return
		}
		if reply := d.answer(b[:size]); reply != nil && d.hears(from.IP.String()) {
			_, _ = d.conn.WriteToUDP(reply, from)
		}
	}
}

// answer makes the reply to a query of one question (RFC 1035, section 4); nil: it is none.
func (d *names) answer(query []byte) []byte {
	const (
		header   = 12
		reply    = 0x8580 // authoritative, recursion desired and available
		notFound = 3
		typeA    = 1
	)
	var labels []string
	at := header
	for at < len(query) && query[at] != 0 {
		end := at + 1 + int(query[at])
		if end > len(query) {
			return nil
		}
		labels = append(labels, strings.ToLower(string(query[at+1:end])))
		at = end
	}
	end := at + 5 // the root label, type and class
	if end > len(query) || binary.BigEndian.Uint16(query[4:]) != 1 {
		return nil
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	out := append([]byte(nil), query[:end]...)
	binary.BigEndian.PutUint16(out[2:], reply)
	clear(out[6:header]) // no answers yet, and nothing else
	host, known := strings.CutSuffix(strings.Join(labels, "."), ".test")
	address := net.ParseIP(d.n.Address(host)).To4()
	switch {
	case !known || address[3] == 0: // a host that there is not
		binary.BigEndian.PutUint16(out[2:], reply|notFound)
	case kind == typeA:
		out[7] = 1
		out = append(out, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4) // that name, good for no time
		out = append(out, address...)
	}
	return out
}
