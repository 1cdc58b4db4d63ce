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

// opinion is what one server says.
type opinion struct {
	addr  string // of the master in question
	slots slots  // Cluster: all masters
}

// slots says which master has which slots of a cluster.
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

// master asks the Sentinels for the address of the master.
func (m *masterResolver) master(ctx context.Context) (string, error) {
	o, err := m.poll(ctx, func(ctx context.Context, c *goredis.Client, _ string) (opinion, error) {
		words, err := c.Do(ctx, "sentinel", "get-master-addr-by-name", m.cfg.Master).StringSlice()
		if errors.Is(err, goredis.Nil) {
			return opinion{}, backends.Misconfigured("the path of the URL is the name that `sentinel monitor` gave to the master",
				"the Sentinels know no master %q", m.cfg.Master)
		}
		if err != nil || len(words) != 2 {
			return opinion{}, orReply(err)
		}
		return opinion{addr: net.JoinHostPort(words[0], words[1])}, nil
	})
	return o.addr, err
}

// masters asks the nodes of the cluster who has which slots.
func (m *masterResolver) masters(ctx context.Context, slot int) (slots, error) {
	o, err := m.poll(ctx, func(ctx context.Context, c *goredis.Client, asked string) (opinion, error) {
		answer, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS needs Redis 7
		if errors.Is(err, redisconn.ErrRefused) {
			answer, err = m.cfg.manySlots(ctx, asked)
		}
		if err != nil {
			return opinion{}, err
		}
		var o opinion
		var all []string
		for _, s := range answer {
			for i, n := range s.Nodes {
				addr := reachable(n.Addr, asked)
				all = append(all, addr)
				if i == 0 {
					o.slots = append(o.slots, slotRange{s.Start, s.End, addr})
				}
			}
		}
		if o.addr = o.slots.at(slot); o.addr == "" {
			return o, fmt.Errorf("%s knows no master for slot %d", asked, slot)
		}
		m.learn(all)
		return o, nil
	})
	return o.slots, err
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
	o := c.guide(addr)
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

// poll asks all at once and returns what most say. It does not wait for those that hang.
func (m *masterResolver) poll(ctx context.Context, ask func(context.Context, *goredis.Client, string) (opinion, error)) (opinion, error) {
	m.mu.Lock()
	addrs := slices.Clone(m.known)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, redisconn.DialTimeout)
	defer cancel()

	type reply struct {
		opinion opinion
		err     error
	}
	replies := make(chan reply, len(addrs))
	for _, addr := range addrs {
		panics.Go(func() {
			c := goredis.NewClient(m.cfg.guide(addr))
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			o, err := ask(ctx, c, addr)
			if stop() {
				_ = c.Close()
			}
			replies <- reply{o, err}
		})
	}
	var (
		votes = map[string]int{}
		best  opinion
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
			votes[r.opinion.addr]++
			if votes[r.opinion.addr] > votes[best.addr] || best.addr == "" {
				best = r.opinion
			}
			if 2*votes[best.addr] > len(addrs) {
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
	if best.addr != "" {
		return best, nil
	}
	return best, noMaster(errs, len(addrs))
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

func orReply(err error) error {
	if err != nil {
		return err
	}
	return errReply
}

// guide are the options of a server that is asked for masters.
func (c *config) guide(addr string) *goredis.Options {
	o := c.bare(addr)
	o.PoolSize = 1
	if c.Kind == redisurl.Sentinel {
		o.Username, o.Password = c.SentinelUser, c.SentinelPassword
	} else {
		o.Username, o.Password = c.User, c.Password
	}
	return o
}
