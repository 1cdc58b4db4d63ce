package redisfence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/fence"
	"github.com/leaderrun/leaderrun/test/servers"
)

// forgetful loses the reply to an INCR while it is armed: the connection breaks before it comes.
type forgetful struct {
	armed atomic.Bool
	gone  atomic.Bool // nobody can be reached any more
	then  func()      // what happens after it was done; nil: nothing
	reply string      // what comes in place of the reply
}

func (f *forgetful) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if f.gone.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &forgetfulConn{Conn: c, f: f}, err
}

type forgetfulConn struct {
	net.Conn
	f     *forgetful
	asked atomic.Bool
}

func (c *forgetfulConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("INCR")) {
		c.asked.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *forgetfulConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // it was done
	if !c.asked.Load() || bytes.HasPrefix(p[:n], []byte("-NOSCRIPT")) || !c.f.armed.CompareAndSwap(true, false) {
		return n, err
	}
	_ = c.Close()
	if c.f.then != nil {
		c.f.then()
	}
	if c.f.reply != "" {
		return copy(p, c.f.reply), nil
	}
	return 0, io.EOF
}

// As it comes out of the box the client library sends again what was not answered. The fence cannot see it, since the token is
// the same, and what the second attempt meets says nothing about the first.
func TestLostReply(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	nodes := servers.Cluster(t, 0)
	alone := func(retries int) func(f *forgetful) redis.UniversalClient {
		return func(f *forgetful) redis.UniversalClient {
			return open(t, s.Addr(), func(o *redis.Options) { o.Dialer, o.MaxRetries = f.dial, retries })
		}
	}
	cluster := func(f *forgetful) redis.UniversalClient {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, Dialer: f.dial, MaxRetries: 3})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for name, client := range map[string]func(f *forgetful) redis.UniversalClient{
		"no retries": alone(-1), "retries by default": alone(0), "a Cluster": cluster,
	} {
		for _, then := range []string{"", "gone", "overtaken", "garbled"} {
			for _, once := range []bool{false, true} {
				f := &forgetful{}
				c := client(f)
				reader := client(&forgetful{})
				reader.Del(t.Context(), "leaderrun:fence:{r}", "leaderrun:once:{r}", "{r}:n")
				w := raise(t, New(c, "r"), 1)
				switch then {
				case "gone":
					f.then = func() { f.gone.Store(true) }
				case "overtaken":
					f.then = func() { raise(t, New(reader, "r"), 2) }
				case "garbled":
					f.reply = "HTTP/1.1 400 Bad Request\r\n\r\n"
				}
				write := func() (did bool, err error) {
					if once {
						return w.Once(t.Context(), count, []string{"{r}:n"})
					}
					_, err = w.Do(t.Context(), "INCR", "{r}:n")
					return true, err
				}
				f.armed.Store(true)
				_, err := write()
				n, _ := reader.Get(t.Context(), "{r}:n").Int()
				if _, setup := errors.AsType[*fence.SetupError](err); n != 1 || !errors.Is(err, ErrUnclear) || isStale(err) || setup {
					t.Errorf("%s, %q, once %v: it was done %d times: %v", name, then, once, n, err)
				}
				if once && then == "" {
					if did, err := write(); did || err != nil {
						t.Errorf("%s: again: %v, %v", name, did, err)
					}
				}
			}
		}
	}
}
