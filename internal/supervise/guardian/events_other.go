//go:build !linux

package guardian

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/boottime"
)

// events are what the guardian waits for.
type events struct {
	timer    *boottime.Timer
	children chan os.Signal // SIGCHLD
	inbox    chan received
	reading  bool
}

// listen takes over the descriptor of the control channel.
func listen(fd int) (*events, *Conn, error) {
	conn, err := NewConn(fd)
	if err != nil {
		return nil, nil, err
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		return nil, nil, err
	}
	e := &events{timer: timer, children: make(chan os.Signal, 1), inbox: make(chan received)}
	signal.Notify(e.children, syscall.SIGCHLD)
	return e, conn, nil
}

// await waits until something has happened, but not past an instant. It returns a message of the wrapper or its
// death, if that is what it was.
func (g *guardian) await(until boottime.Instant) (received, bool) {
	e := g.events
	if !e.reading && !g.gone {
		e.reading = true
		go e.read(g.conn)
	}
	e.timer.Set(until)
	select {
	case r := <-e.inbox:
		return r, true
	case <-e.children:
	case <-e.timer.C():
	}
	return received{}, false
}

// watch does nothing here.
func (*events) watch(int) {}

func (e *events) read(c *Conn) {
	for {
		m, fds, err := c.Receive()
		e.inbox <- received{m, fds, err}
		if err != nil {
			return
		}
	}
}
