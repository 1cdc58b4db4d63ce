package cli_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/all"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/test/program"
)

// faulty is leaderrun with faults: a renewal of a job whose name begins with "faulty" panics, and so does a goroutine that
// belongs to no run, once there is a file "panic".
func faulty() {
	*cli.OpenDriver = func(rawURL string) (backends.Backend, error) {
		store, err := all.Open(rawURL)
		return faultyStore{store}, err
	}
	panics.Go(func() {
		for {
			if _, err := os.Stat("panic"); err == nil {
				panic("beside every run")
			}
			time.Sleep(time.Millisecond)
		}
	})
	program.Run()
}

type faultyStore struct{ backends.Backend }

// broken: a panic has left a lock behind. Whoever waits for it waits for ever.
var broken atomic.Bool

// Jobs heeds no context.
func (s faultyStore) Jobs(context.Context) ([]string, error) { select {} }

func (s faultyStore) Close() error {
	if broken.Load() {
		os.Exit(99)
	}
	return s.Backend.Close()
}

func (s faultyStore) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	if strings.HasPrefix(g.Claim.Job, "faulty") {
		broken.Store(true)
		panic("in a renewal")
	}
	return s.Backend.Renew(ctx, g)
}
