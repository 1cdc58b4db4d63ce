package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/redisconn"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// masterDialer connects to the master that a Sentinel names. redis.NewFailoverClient takes what Sentinels say for what it
// should be, and panics where it is not.
func masterDialer(t *redisurl.Target) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		addr, err := master(ctx, t)
		if err != nil {
			return nil, notDialed(err)
		}
		return redisconn.Dial(ctx, t, network, addr)
	}
}

// notDialed is the error of a connection that never came about: nothing was sent to the server in question.
func notDialed(err error) error { return &net.OpError{Op: "dial", Net: "redis", Err: err} }

// master asks all Sentinels at once where the master is, and believes the first that says so.
func master(ctx context.Context, t *redisurl.Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, redisconn.DialTimeout)
	defer cancel()
	type answer struct {
		addr string
		err  error
	}
	answers := make(chan answer, len(t.Addrs))
	for _, sentinel := range t.Addrs {
		panics.Go(func() {
			c := redis.NewClient(redisconn.Guide(t, sentinel, ioTimeout))
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })() // a request in flight ends by nothing else
			addr, err := redisconn.Master(ctx, c, t)
			if errors.Is(err, redis.Nil) {
				err = unknownMaster(t.Master)
			}
			answers <- answer{addr, err}
		})
	}
	var errs []error
	for range t.Addrs {
		a := <-answers
		if a.err == nil {
			return a.addr, nil
		}
		errs = append(errs, a.err)
	}
	return "", fmt.Errorf("no Sentinel says which server is the master: %w", errors.Join(errs...))
}

// unknownMaster is the error of a Sentinel that does not know the master's name: it answers, as a server does that refuses.
type unknownMaster string

func (e unknownMaster) Error() string {
	return fmt.Sprintf("the Sentinels know no master %q", string(e))
}

// RedisError implements redis.Error.
func (unknownMaster) RedisError() {}
