package servers

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between a client and a TCP server and breaks the network as told. The faults are those that
// tell nobody: what is dropped is dropped without a reset, as by a firewall.
type Proxy struct {
	listener net.Listener
	network  string
	target   string

	dropRequests, dropReplies atomic.Bool
	cutReplies                atomic.Bool
	garble                    atomic.Bool
	delay                     atomic.Int64 // of replies, ns
	trips                     atomic.Int64
	dropped                   atomic.Int64
	swallowed                 atomic.Int64 // requests that were dropped

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// NewProxy starts a proxy in front of a server.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, network: "tcp", target: target, conns: map[net.Conn]bool{}}
	go p.serve()
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
	})
	return p
}

// Addr returns where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// DropReplies passes requests on and drops what the server answers.
func (p *Proxy) DropReplies(on bool) { p.dropReplies.Store(on) }

// CutReplies passes requests on and closes the connection instead of passing an answer on.
func (p *Proxy) CutReplies(on bool) { p.cutReplies.Store(on) }

// DropAll drops both ways. Connections look open.
func (p *Proxy) DropAll(on bool) {
	p.dropRequests.Store(on)
	p.dropReplies.Store(on)
}

// Garble replaces every reply by a line that is of no protocol.
func (p *Proxy) Garble(on bool) { p.garble.Store(on) }

// Delay holds every reply back for so long.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Trips returns how often a client has spoken after the server had, over all connections: round trips.
func (p *Proxy) Trips() int { return int(p.trips.Load()) }

// Dropped returns how many replies were dropped.
func (p *Proxy) Dropped() int { return int(p.dropped.Load()) }

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			server, err := net.DialTimeout(p.network, p.target, 10*time.Second)
			if err != nil {
				_ = client.Close()
				return
			}
			p.mu.Lock()
			p.conns[client], p.conns[server] = true, true
			p.mu.Unlock()
			var answered atomic.Bool
			answered.Store(true)
			go p.pump(client, server, func([]byte) bool {
				if p.dropRequests.Load() {
					p.swallowed.Add(1)
					return false
				}
				if answered.Swap(false) {
					p.trips.Add(1)
				}
				return true
			})
			p.pump(server, client, func(reply []byte) bool {
				answered.Store(true)
				if p.garble.Load() {
					copy(reply, "garbage\r\n")
				}
				if d := p.delay.Load(); d > 0 {
					time.Sleep(time.Duration(d))
				}
				if p.cutReplies.Load() {
					_ = client.Close()
				}
				if p.dropReplies.Load() || p.cutReplies.Load() {
					p.dropped.Add(1)
					return false
				}
				return true
			})
		}()
	}
}

// pump copies from one side to the other what pass lets through.
func (p *Proxy) pump(from, to net.Conn, pass func([]byte) bool) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		if n > 0 && pass(b[:n]) {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
