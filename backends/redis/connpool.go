package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/redisconn"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

const (
	// A run uses one connection, and a second one beside a silent one. A daemon with many runs uses more, and keeps a
	// few between two bursts.
	poolSize  = 16
	idleConns = 3
	idleTime  = time.Minute

	// buffer is what the record of a job with a full history fits in: what is longer is sent, and read, in pieces.
	buffer = 8 << 10

	readTimeout = 10 * time.Second // where the context has no deadline; with one, that counts
)

var errClosed = errors.New("the driver is closed")

// connPool is the connections that are trusted at the moment. After a failure it is retired: no request uses it
// any more, and the next one begins with a fresh connection, and where there are several servers by asking
// anew which is the master.
type connPool struct {
	cfg            *config
	masterResolver *masterResolver

	mu      sync.Mutex
	clients map[string]*goredis.Client // by address
	slots   slots                      // nil: nobody has been asked yet
	users   int
	retired bool
}

// use returns the pool for a request, which calls release.
func (s *store) use() (*connPool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.pool == nil {
		s.pool = &connPool{cfg: s.cfg, masterResolver: s.masterResolver, clients: map[string]*goredis.Client{}}
	}
	s.pool.mu.Lock()
	s.pool.users++
	s.pool.mu.Unlock()
	return s.pool, nil
}

// drop makes sure that no new request uses p.
func (s *store) drop(p *connPool) {
	s.mu.Lock()
	if s.pool == p {
		s.pool = nil
	}
	s.mu.Unlock()
	p.retire()
}

func (p *connPool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	p.closeIfUnused()
}

func (p *connPool) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	p.closeIfUnused()
}

// hangUp ends what is on its way, too.
func (p *connPool) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	p.close()
}

func (p *connPool) closeIfUnused() {
	if p.retired && p.users == 0 {
		p.close()
	}
}

func (p *connPool) close() {
	for _, c := range p.clients {
		_ = c.Close()
	}
	clear(p.clients)
}

// client returns the client of the master for a key.
func (p *connPool) client(ctx context.Context, key string) (*goredis.Client, error) {
	addr, err := p.address(ctx, key)
	if err != nil {
		return nil, err
	}
	return p.at(addr), nil
}

func (p *connPool) at(addr string) *goredis.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[addr]
	if c == nil {
		c = goredis.NewClient(p.cfg.options(addr))
		p.clients[addr] = c
	}
	return c
}

// address returns where the master for a key is, asking only when this pool does not know.
func (p *connPool) address(ctx context.Context, key string) (string, error) {
	if p.cfg.Kind == redisurl.Single {
		return p.cfg.Addrs[0], nil
	}
	slot := slotOf(key)
	p.mu.Lock()
	addr := p.slots.at(slot)
	p.mu.Unlock()
	if addr != "" {
		return addr, nil
	}
	all, err := p.masterResolver.masters(ctx, slot)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.slots = all
	p.mu.Unlock()
	return all.at(slot), nil
}

// options are those of one server.
func (c *config) options(addr string) *goredis.Options {
	o := redisconn.Options(&c.Target, readTimeout).Simple()
	o.Network, o.Addr = c.Network, addr
	o.PoolSize, o.MaxIdleConns, o.ConnMaxIdleTime = poolSize, idleConns, idleTime
	o.ReadBufferSize, o.WriteBufferSize = buffer, buffer
	return o
}
