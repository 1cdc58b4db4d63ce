package redis

import (
	"context"
	"errors"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
)

var errMessage = errors.New("the message is none of a subscription")

const watchPing = 20 * time.Second // a silent subscription is asked whether it lives

// Watch implements backends.Watcher by a subscription to the job's channel, on a connection of its own. It
// sends once when the subscription stands, also after a reconnection: what happened before went unseen. The
// channel is closed before ctx ends only where no retry helps, e.g. without the right to subscribe.
func (d *Driver) Watch(ctx context.Context, job string) (<-chan backends.News, error) {
	return backends.Rewatch(ctx, d.life, func(ctx context.Context, tell func(backends.News)) error {
		return d.follow(ctx, job, tell)
	})
}

// follow holds one subscription until it breaks.
func (d *Driver) follow(ctx context.Context, job string, tell func(backends.News)) error {
	l, err := d.use()
	if err != nil {
		return err
	}
	defer l.release()
	defer func() {
		if ctx.Err() == nil {
			d.drop(l) // it broke: perhaps the master is another one now
		}
	}()
	key := d.cfg.key(job, "lease")
	asking, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	client, err := l.client(asking, key)
	if err != nil {
		return classify(d.cfg, err)
	}
	sub := client.Subscribe(asking) // no channel yet: nothing is sent
	defer func() { _ = sub.Close() }()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // a read in flight knows no context
	if err := sub.Subscribe(asking, key); err != nil {
		return classify(d.cfg, err)
	}
	asked := false
	for {
		message, err := receive(ctx, sub, watchPing)
		if isTimeout(err) && !asked && ctx.Err() == nil {
			asked = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return classify(d.cfg, err)
		}
		asked = false
		switch message.(type) {
		case *goredis.Subscription, *goredis.Message:
			tell(backends.News{Look: true})
		}
	}
}

// receive waits for what comes on a subscription. The client library takes a message for what it should be, and panics where
// it is not.
func receive(ctx context.Context, sub *goredis.PubSub, timeout time.Duration) (message any, err error) {
	defer func() {
		if recover() != nil {
			message, err = nil, errMessage
		}
	}()
	return sub.ReceiveTimeout(ctx, timeout)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
