package main

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

// lockGroup are those that wait for a lock with the library of `consul lock -n LIMIT` and as that does, but all in this process, each with
// a client of its own: 1,000 processes would take 17 GB.
type lockGroup struct {
	server  *server
	limit   int
	waiters []*lockWaiter
	stop    chan struct{}
}

// lockWaiter is one of them. It is the transport of its client.
type lockWaiter struct {
	http.Transport

	held atomic.Bool
	dead atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (w *lockWaiter) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.dead.Load() {
		return nil, errors.New("this host is dead")
	}
	return w.Transport.RoundTrip(r)
}

func (g *lockGroup) come() error {
	g.stop = make(chan struct{})
	for i := range g.waiters {
		w := &lockWaiter{}
		g.waiters[i] = w
		client, err := api.NewClient(&api.Config{Address: g.server.addr, HttpClient: &http.Client{Transport: w}})
		if err != nil {
			return err
		}
		acquire, err := g.lock(client)
		if err != nil {
			return err
		}
		go func() {
			if lost, err := acquire(g.stop); err == nil && lost != nil {
				w.held.Store(true)
			}
		}()
	}
	return nil
}

// lock returns what takes the lock, with the options of the command.
func (g *lockGroup) lock(client *api.Client) (func(<-chan struct{}) (<-chan struct{}, error), error) {
	const retries, pause = 3, time.Second
	if g.limit == 1 {
		l, err := client.LockOpts(&api.LockOptions{
			Key: "workers/" + api.DefaultSemaphoreKey, SessionName: "bench", MonitorRetries: retries, MonitorRetryTime: pause,
		})
		if err != nil {
			return nil, err
		}
		return l.Lock, nil
	}
	s, err := client.SemaphoreOpts(&api.SemaphoreOptions{
		Prefix: "workers", Limit: g.limit, SessionName: "bench", MonitorRetries: retries, MonitorRetryTime: pause,
	})
	if err != nil {
		return nil, err
	}
	return s.Acquire, nil
}

// settles waits until as many have the lock as can, and all ask to be told of a change.
func (g *lockGroup) settles() error {
	const patience = 5 * time.Minute
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		holders, alive := 0, 0
		for _, w := range g.waiters {
			if !w.dead.Load() {
				alive++
				if w.held.Load() {
					holders++
				}
			}
		}
		told, err := g.server.told()
		if err != nil {
			return err
		}
		if holders == g.limit && told-g.server.quiet >= alive {
			return nil
		}
	}
	return fmt.Errorf("after %v not all wait for the lock", patience)
}

// die ends one that has the lock without a word to anybody.
func (g *lockGroup) die() {
	for _, w := range g.waiters {
		if w.held.Load() {
			w.dead.Store(true)
			w.CloseIdleConnections()
			return
		}
	}
}

func (g *lockGroup) end() { close(g.stop) }
