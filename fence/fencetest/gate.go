package fencetest

import (
	"context"
	"net"
	"sync"
)

// Gate is where a writer can be stopped as by SIGSTOP: in the middle of what it does, for as long as another one likes.
// Whatever stands for a writer calls Step wherever a pause may come.
type Gate struct {
	mu      sync.Mutex
	taken   int           // steps so far
	stopAt  int           // the step to stop at, from 1 on; 0: none
	where   string        // the name of that step
	stopped chan struct{} // closed when the writer stands there
	resumed chan struct{} // closed when it may go on
	once    sync.Once
}

// newGate returns a gate that stops a writer at a step; 0: never.
func newGate(stopAt int) *Gate {
	return &Gate{stopAt: stopAt, stopped: make(chan struct{}), resumed: make(chan struct{})}
}

// Step is a place where the writer may be stopped. A nil gate lets everybody through.
func (g *Gate) Step(name string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.taken++
	here := g.taken == g.stopAt
	if here {
		g.where = name
	}
	g.mu.Unlock()
	if here {
		close(g.stopped)
		<-g.resumed
	}
}

// resume lets the writer go on, and stops it no more.
func (g *Gate) resume() { g.once.Do(func() { close(g.resumed) }) }

// steps returns how many steps were taken.
func (g *Gate) steps() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken
}

// place is where the writer was stopped.
func (g *Gate) place() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.where
}

// Conn returns a connection whose every read and write is a step before it and after it, and every write of more than one
// byte a step in its middle: what was sent by then is on its way, and the rest is not.
func (g *Gate) Conn(c net.Conn) net.Conn { return &gatedConn{Conn: c, gate: g} }

// Dialer returns a function that dials through the gate.
func (g *Gate) Dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return g.Conn(c), nil
	}
}

type gatedConn struct {
	net.Conn
	gate *Gate
}

func (c *gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gate.Step("after a read")
	return n, err
}

func (c *gatedConn) Write(p []byte) (int, error) {
	c.gate.Step("before a write")
	half := len(p) / 2
	n, err := c.Conn.Write(p[:half])
	if err != nil {
		return n, err
	}
	if half > 0 {
		c.gate.Step("in the middle of a write")
	}
	m, err := c.Conn.Write(p[half:])
	c.gate.Step("after a write")
	return n + m, err
}
