package rpc_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/test/waits"
	"go.uber.org/goleak"
)

// What a client started is gone when it is closed: each test closes its own.
func TestMain(m *testing.M) {
	_ = os.Setenv("ETCD_CLIENT_DEBUG", "fatal") // of the official client, which logs what the tests provoke
	goleak.VerifyTestMain(m)
}

// enough is a time that only a hang exceeds.
var enough = waits.Patience

// within returns a context for a request that is expected to be answered.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	t.Cleanup(cancel)
	return ctx
}

// soon returns a context for a request that is expected to time out.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, endpoints ...string) *rpc.Client {
	t.Helper()
	return configured(t, rpc.Config{Endpoints: endpoints})
}

func configured(t *testing.T, cfg rpc.Config) *rpc.Client {
	t.Helper()
	c := rpc.New(cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
