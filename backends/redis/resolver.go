package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/redisconn"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

// opinionGrace is how long the others may still answer when one has: a server that was cut off from the rest
// goes on naming the old master.
const opinionGrace = 200 * time.Millisecond

// masterResolver finds masters: by asking all Sentinels, or all known nodes of a cluster, and believing most of
// them. It is asked again for every new pool. That a wrong answer grants nothing is the work of WAIT.
type masterResolver struct {
	cfg *config

	mu    sync.Mutex
	known []string // whom to ask: those of the URL, and in a cluster all that were ever named
}

func newMasterResolver(cfg *config) *masterResolver {
	return &masterResolver{cfg: cfg, known: slices.Clone(cfg.Addrs)}
}

// slots says which master has which slots of a cluster. Behind Sentinels one has them all.
type slots []slotRange

type slotRange struct {
	start, end int
	addr       string
}

func (s slots) at(slot int) string {
	for _, r := range s {
		if r.start <= slot && slot <= r.end {
			return r.addr
		}
	}
	return ""
}

// masters asks where the masters are, and at least that of a slot.
func (m *masterResolver) masters(ctx context.Context, slot int) (slots, error) {
	if m.cfg.Kind == redisurl.Sentinel {
		return m.poll(ctx, slot, m.askSentinel)
	}
	return m.poll(ctx, slot, m.askNode)
}

func (m *masterResolver) askSentinel(ctx context.Context, c *goredis.Client, _ int) (slots, error) {
	addr, err := redisconn.Master(ctx, c, &m.cfg.Target)
	if errors.Is(err, goredis.Nil) {
		err = backends.Misconfigured("the path of the URL is the name that `sentinel monitor` gave to the master",
			"the Sentinels know no master %q", m.cfg.Master)
	}
	return slots{{0, slotCount - 1, addr}}, err
}

// askNode asks a node of the cluster who has which slots.
func (m *masterResolver) askNode(ctx context.Context, c *goredis.Client, slot int) (slots, error) {
	asked := c.Options().Addr
	answer, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS needs Redis 7
	if errors.Is(err, redisconn.ErrRefused) {
		answer, err = m.cfg.manySlots(ctx, asked)
	}
	if err != nil {
		return nil, err
	}
	var said slots
	var all []string
	for _, s := range answer {
		for i, n := range s.Nodes {
			addr := reachable(n.Addr, asked)
			all = append(all, addr)
			if i == 0 {
				said = append(said, slotRange{s.Start, s.End, addr})
			}
		}
	}
	if said.at(slot) == "" {
		return nil, fmt.Errorf("%s knows no master for slot %d", asked, slot)
	}
	m.learn(all)
	return said, nil
}

// askingMany bounds how many answers of manySlots are in memory at a time.
var askingMany = make(chan struct{}, 2)

// manySlots asks a node whose answer is larger than that of most Clusters.
func (c *config) manySlots(ctx context.Context, addr string) ([]goredis.ClusterSlot, error) {
	select {
	case askingMany <- struct{}{}:
		defer func() { <-askingMany }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	o := redisconn.Guide(&c.Target, addr, readTimeout)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return redisconn.DialCluster(ctx, &c.Target, network, addr)
	}
	client := goredis.NewClient(o)
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	defer client.Close()
	return client.ClusterSlots(ctx).Result() //nolint:staticcheck // as above
}

// reachable completes the address of a node that does not know its own.
func reachable(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || (host != "" && host != "?") {
		return addr
	}
	host, _, _ = net.SplitHostPort(asked)
	return net.JoinHostPort(host, port)
}

func (m *masterResolver) learn(addrs []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range addrs {
		if !slices.Contains(m.known, a) && len(m.known) < 50 {
			m.known = append(m.known, a)
		}
	}
}

// poll asks all at once for the master of a slot, and returns what most say. It does not wait for those that hang.
func (m *masterResolver) poll(ctx context.Context, slot int, ask func(context.Context, *goredis.Client, int) (slots, error)) (slots, error) {
	m.mu.Lock()
	addrs := slices.Clone(m.known)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, redisconn.DialTimeout)
	defer cancel()

	type reply struct {
		said slots
		err  error
	}
	replies := make(chan reply, len(addrs))
	for _, addr := range addrs {
		panics.Go(func() {
			c := goredis.NewClient(redisconn.Guide(&m.cfg.Target, addr, readTimeout))
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			said, err := ask(ctx, c, slot)
			if stop() {
				_ = c.Close()
			}
			replies <- reply{said, err}
		})
	}
	var (
		votes = map[string]int{} // by the address of the slot's master
		best  slots
		errs  []error
		grace <-chan time.Time
	)
	for range addrs {
		select {
		case r := <-replies:
			if r.err != nil {
				errs = append(errs, classify(m.cfg, r.err))
				continue
			}
			votes[r.said.at(slot)]++
			if best == nil || votes[r.said.at(slot)] > votes[best.at(slot)] {
				best = r.said
			}
			if 2*votes[best.at(slot)] > len(addrs) {
				return best, nil
			}
			if grace == nil {
				grace = time.After(opinionGrace)
			}
			continue
		case <-grace:
		case <-ctx.Done():
			errs = append(errs, context.Cause(ctx))
		}
		break
	}
	if best != nil {
		return best, nil
	}
	return nil, noMaster(errs, len(addrs))
}

// noMaster is permanent only if everybody who was asked refused for good.
func noMaster(errs []error, asked int) error {
	permanent := 0
	for _, err := range errs {
		if backends.IsPermanent(err) {
			permanent++
		}
	}
	if permanent == asked {
		return errs[0]
	}
	for _, err := range errs {
		if !backends.IsPermanent(err) {
			return fmt.Errorf("nobody says which server is the master: %w", err)
		}
	}
	return errors.New("nobody says which server is the master")
}
