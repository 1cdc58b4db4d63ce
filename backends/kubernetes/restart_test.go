package kubernetes

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestServerRestarts: while an API server starts it knows neither roles nor service accounts, and may refuse everybody.
// Nothing that it says then is final; afterwards all goes on: the lease, the watch and the token that was given before.
func TestServerRestarts(t *testing.T) {
	s := servers.Kubernetes(t, servers.KubernetesOptions{})
	namespace := s.Namespace(t)
	applyRole(t, s, namespace)
	w := &world{Steps: suite.On(t), server: s, namespace: namespace}
	w.d = w.open(account(namespace))
	c := newClaim("job")
	c.TTL = time.Hour
	g := w.Acquire(w.d, c)
	ch, err := w.d.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	w.News("the watch stands", ch, suite.Looks)

	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan int)
	go func() {
		failed := 0
		for ctx.Err() == nil {
			limited, stop := context.WithTimeout(ctx, time.Second)
			_, err := w.d.Renew(limited, g)
			stop()
			if err != nil && ctx.Err() == nil {
				failed++
				if backends.IsAnswer(err) {
					t.Errorf("while the server starts: %v", err)
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
		asked <- failed
	}()
	s.Restart(t, true)
	cancel()
	if n := <-asked; n == 0 {
		t.Error("no renewal failed: the test has tested nothing")
	}
	w.News("the watch stands again", ch, suite.Looks)
	w.Renew(w.d, g)
	w.Finish(w.d, g)
}

// silent is a client whose first update stays silent.
type silent struct {
	client
	updates   atomic.Int32
	elsewhere atomic.Int32
	arrived   chan struct{}
}

func (s *silent) Update(ctx context.Context, l *api.Lease) (*api.Lease, error) {
	if s.updates.Add(1) == 1 {
		close(s.arrived)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	l = l.Clone()
	l.ResourceVersion = "9"
	return l, nil
}

func (s *silent) RotateEndpoint() { s.elsewhere.Add(1) }
func (s *silent) Close() error    { return nil }

// TestSecondRenewalGoesElsewhere: one renewal stays silent, as on a connection that a firewall has forgotten. The one
// beside it goes over a new connection; one that is alone does not pay for that.
func TestSecondRenewalGoesElsewhere(t *testing.T) {
	t.Parallel()
	d := driverOf(nil)
	s := &silent{arrived: make(chan struct{})}
	d.client = s
	c := newClaim("job")
	first := backends.Decide(new(state).View(asks(c.Holder.ID, c.Seen)), c)
	l := new(state).changed(d.cfg, c.Job, alive(first.Record))
	l.UID, l.ResourceVersion = "u", "7"
	last, err := d.cfg.state(c.Job, l)
	if err != nil {
		t.Fatal(err)
	}
	g := *first.Grant
	g.Private = backends.NewLeaseCache(last)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, err := d.Renew(ctx, g); ended <- err }()
	<-s.arrived
	if n := s.elsewhere.Load(); n != 0 {
		t.Errorf("a renewal that is alone asked for another connection %d times", n)
	}
	if _, err := d.Renew(t.Context(), g); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if n := s.elsewhere.Load(); n != 1 {
		t.Errorf("asked for another connection %d times, want 1", n)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the silent renewal was answered")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Renew(t.Context(), g); err != nil && backends.IsAnswer(err) {
		t.Errorf("after Close: %v", err)
	}
}
