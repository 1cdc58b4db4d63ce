package redis

import (
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// TestOvertakenOrders: an order that is overtaken by a renewal, again and again, is decided anew and arrives, and takes
// nothing back of what the renewal wrote.
func TestOvertakenOrders(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	d, other := open(t, "redis://"+s.Addr()), open(t, "redis://"+s.Addr())
	g, _ := granted(t, d, claim("job", long))
	var (
		renewing sync.WaitGroup
		stop     = make(chan struct{})
		heard    = make(chan string) // who asks to stop, as the last renewal heard it
		last     int64
	)
	renewing.Go(func() {
		for from := ""; ; {
			signal, err := d.Renew(within(t, suite.Patience), g)
			if err != nil {
				t.Errorf("renewal: %v", err)
			}
			if signal.Break != nil {
				from = signal.Break.By.ID
			}
			select {
			case <-stop:
				return
			case heard <- from:
			case <-time.After(200 * time.Microsecond):
			}
		}
	})
	defer func() {
		close(stop)
		renewing.Wait()
	}()
	for range 20 {
		o := suite.NewOrder(backends.Stop, g)
		if err := other.Order(within(t, suite.Patience), o); err != nil {
			t.Fatalf("order: %v", err)
		}
		<-heard // of a renewal that may have been under way
		if from := <-heard; from != o.By.ID {
			t.Errorf("a renewal after the order hears of %q, want %q", from, o.By.ID)
		}
		status, err := other.Inspect(within(t, suite.Patience), "job")
		if err != nil || status.Record.Beat <= last {
			t.Fatalf("beat %d after %d: %v", status.Record.Beat, last, err)
		}
		last = status.Record.Beat
	}
}
