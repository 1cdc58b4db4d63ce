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

// Follow implements backends.Store by a subscription to the job's channel, on a connection of its own. It tells once when
// the subscription stands: what happened before went unseen.
func (s *store) Follow(ctx context.Context, job string, tell func(backends.News)) error {
	l, err := s.use()
	if err != nil {
		return err
	}
	defer l.release()
	defer func() {
		if ctx.Err() == nil {
			s.drop(l) // it broke: perhaps the master is another one now
		}
	}()
	key := s.cfg.key(job, "lease")
	asking, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	client, err := l.client(asking, key)
	if err != nil {
		return classify(s.cfg, err)
	}
	sub := client.Subscribe(asking) // no channel yet: nothing is sent
	defer func() { _ = sub.Close() }()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // a read in flight knows no context
	if err := sub.Subscribe(asking, key); err != nil {
		return classify(s.cfg, err)
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
			return classify(s.cfg, err)
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
