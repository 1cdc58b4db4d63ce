package launch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/cli"
)

// ListenTCP opens what --listen names.
func ListenTCP(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		why := "it names no port"
		if _, notNumber := strconv.ParseUint(address, 10, 16); notNumber == nil {
			why = "the colon before the port is missing"
		}
		return nil, cli.Usage("--listen "+address, why, "HOST:PORT or :PORT, such as localhost:9465")
	}
	network := "tcp"
	if net.ParseIP(host).To4() != nil { // package net would take 0.0.0.0 for all addresses, those of IPv6 too
		network = "tcp4"
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), network, address)
	if err != nil {
		return nil, &cli.Fault{Code: cli.CodeConfiguration, What: "--listen " + address, Why: cli.Reason(err), Err: err, Hint: "HOST:PORT or :PORT that is free"}
	}
	return listener, nil
}

// queue is a listener whose clients wait in the kernel while many are being served.
type queue struct {
	net.Listener
	slots  chan struct{} // one for each client that is being served
	closed chan struct{}
	close  func() error
}

func newQueue(listener net.Listener, slots chan struct{}) *queue {
	q := &queue{Listener: listener, slots: slots, closed: make(chan struct{})}
	q.close = sync.OnceValue(func() error {
		close(q.closed)
		return listener.Close()
	})
	return q
}

// Close also ends an Accept that waits for a client to go: a server closes its connections only when its Accept has returned.
func (q *queue) Close() error { return q.close() }

// ServeSome is server.Serve of so many connections at a time.
func ServeSome(server *http.Server, listener net.Listener, most int) error {
	slots := make(chan struct{}, most)
	server.ConnState = frees(slots)
	return server.Serve(newQueue(listener, slots))
}

// frees makes what a server of a queue calls when a connection changes. One that has become something else is no longer the server's.
func frees(slots chan struct{}) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			<-slots
		}
	}
}

// Accept ends when the socket is closed, and not when the process is out of descriptors, which passes.
func (q *queue) Accept() (net.Conn, error) {
	const pause = 100 * time.Millisecond
	select {
	case q.slots <- struct{}{}:
	case <-q.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := q.Listener.Accept()
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, net.ErrClosed) {
			<-q.slots
			return nil, err
		}
		time.Sleep(pause)
	}
}
