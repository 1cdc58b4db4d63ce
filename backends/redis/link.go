package redis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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

// link is the connections that are trusted at the moment. After a failure it is retired: no request uses it
// any more, and the next one begins with a fresh connection, and where there are several servers by asking
// anew which is the master.
type link struct {
	cfg            *config
	masterResolver *masterResolver

	mu      sync.Mutex
	clients map[string]*goredis.Client // by address
	slots   slots                      // Cluster
	master  string                     // Sentinel
	users   int
	retired bool
}

// use returns the link for a request, which calls release.
func (s *store) use() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.link == nil {
		s.link = &link{cfg: s.cfg, masterResolver: s.masterResolver, clients: map[string]*goredis.Client{}}
	}
	s.link.mu.Lock()
	s.link.users++
	s.link.mu.Unlock()
	return s.link, nil
}

// drop makes sure that no new request uses l.
func (s *store) drop(l *link) {
	s.mu.Lock()
	if s.link == l {
		s.link = nil
	}
	s.mu.Unlock()
	l.retire()
}

func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	l.closeIfUnused()
}

func (l *link) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	l.closeIfUnused()
}

// hangUp ends what is on its way, too.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	l.close()
}

func (l *link) closeIfUnused() {
	if l.retired && l.users == 0 {
		l.close()
	}
}

func (l *link) close() {
	for _, c := range l.clients {
		_ = c.Close()
	}
	clear(l.clients)
}

// client returns the client of the master for a key.
func (l *link) client(ctx context.Context, key string) (*goredis.Client, error) {
	addr, err := l.address(ctx, key)
	if err != nil {
		return nil, err
	}
	return l.at(addr), nil
}

func (l *link) at(addr string) *goredis.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[addr]
	if c == nil {
		c = goredis.NewClient(l.cfg.options(addr))
		l.clients[addr] = c
	}
	return c
}

// address returns where the master for a key is, asking only when this link does not know.
func (l *link) address(ctx context.Context, key string) (string, error) {
	switch l.cfg.Kind {
	case redisurl.Sentinel:
		l.mu.Lock()
		addr := l.master
		l.mu.Unlock()
		if addr != "" {
			return addr, nil
		}
		addr, err := l.masterResolver.master(ctx)
		if err != nil {
			return "", err
		}
		l.mu.Lock()
		l.master = addr
		l.mu.Unlock()
		return addr, nil
	case redisurl.Cluster:
		slot := slotOf(key)
		l.mu.Lock()
		addr := l.slots.at(slot)
		l.mu.Unlock()
		if addr != "" {
			return addr, nil
		}
		all, err := l.masterResolver.masters(ctx, slot)
		if err != nil {
			return "", err
		}
		l.mu.Lock()
		l.slots = all
		l.mu.Unlock()
		return all.at(slot), nil
	}
	return l.cfg.Addrs[0], nil
}

// options are those of one server: every retry and every request of the library's own is off.
func (c *config) options(addr string) *goredis.Options {
	o := c.bare(addr)
	o.Username, o.Password, o.DB = c.User, c.Password, c.DB
	return o
}

// bare are the options without credentials.
func (c *config) bare(addr string) *goredis.Options {
	return &goredis.Options{
		Network: c.Network, Addr: addr, Protocol: 2,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return redisconn.Dial(ctx, &c.Target, network, addr)
		},
		MaxRetries:               -1, // 0 would be 3: a claim would run twice
		DialerRetries:            1,
		DialTimeout:              redisconn.DialTimeout,
		ReadTimeout:              readTimeout,
		WriteTimeout:             readTimeout,
		ContextTimeoutEnabled:    true,
		PoolSize:                 poolSize,
		MaxIdleConns:             idleConns,
		ConnMaxIdleTime:          idleTime,
		ReadBufferSize:           buffer,
		WriteBufferSize:          buffer,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
