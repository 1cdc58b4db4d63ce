package redisconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime/metrics"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// tape is a connection whose server says one text, in chunks, whatever it is asked.
type tape struct {
	text  []byte
	chunk int
}

func (c *tape) Read(p []byte) (int, error) {
	n := min(len(p), len(c.text), c.chunk)
	copy(p, c.text[:n])
	c.text = c.text[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (*tape) Write(p []byte) (int, error)      { return len(p), nil }
func (*tape) Close() error                     { return nil }
func (*tape) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*tape) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*tape) SetDeadline(time.Time) error      { return nil }
func (*tape) SetReadDeadline(time.Time) error  { return nil }
func (*tape) SetWriteDeadline(time.Time) error { return nil }

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// asks are what we ask servers, each read by a reader of its own in the library.
var asks = []func(ctx context.Context, c *goredis.Client){
	func(ctx context.Context, c *goredis.Client) { c.Do(ctx, "evalsha") },
	func(ctx context.Context, c *goredis.Client) { _, _ = c.Do(ctx, "sentinel").StringSlice() },
	func(ctx context.Context, c *goredis.Client) { c.ClusterSlots(ctx) }, //nolint:staticcheck // CLUSTER SHARDS needs Redis 7
	func(ctx context.Context, c *goredis.Client) { c.Scan(ctx, 0, "", 1) },
	func(ctx context.Context, c *goredis.Client) { c.HGetAll(ctx, "k") },
	func(ctx context.Context, c *goredis.Client) {
		p := c.Pipeline()
		p.Do(ctx, "evalsha")
		p.Do(ctx, "wait")
		_, _ = p.Exec(ctx)
	},
}

// FuzzReplies: whatever a server says, in whatever chunks: what passes is what it said, up to a byte that no chunk changes,
// and the library reads it without a panic and in bounded memory.
func FuzzReplies(f *testing.F) {
	logging.Disable()
	for _, text := range legal {
		if len(text) < 10_000 {
			f.Add([]byte(text), uint8(3), uint8(0))
		}
	}
	for _, c := range hostile {
		if len(c.text) < 10_000 {
			f.Add([]byte(c.text), uint8(5), uint8(1))
		}
	}
	f.Add([]byte("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n*2\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\nh\r\n:1\r\n$1\r\ni\r\n"), uint8(9), uint8(2))
	f.Add([]byte("-ERR no HELLO\r\n*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"), uint8(200), uint8(3))
	f.Add([]byte("-ERR no HELLO\r\n*4\r\n$1\r\nn\r\n$1\r\nh\r\n$1\r\n0\r\n$2\r\n{}\r\n:0\r\n"), uint8(200), uint8(5))
	f.Fuzz(func(t *testing.T, text []byte, chunk, what uint8) {
		size := int(chunk) + 1
		all, err := io.ReadAll(bound(&tape{text, len(text) + 1}, frames{}))
		parts, errOfParts := io.ReadAll(bound(&tape{text, size}, frames{}))
		if !bytes.HasPrefix(text, all) || !bytes.Equal(all, parts) || !errors.Is(errOfParts, err) {
			t.Fatalf("%d bytes and %v, in chunks of %d %d bytes and %v", len(all), err, size, len(parts), errOfParts)
		}
		if err == nil && len(all) != len(text) || err != nil && !errors.Is(err, ErrRefused) {
			t.Fatalf("%d of %d bytes, %v", len(all), len(text), err)
		}
		ask := asks[int(what)%len(asks)]
		for _, before := range []string{"", "-ERR unknown command 'HELLO'\r\n"} { // read as the reply to HELLO, and as that to the question
			c := goredis.NewClient(&goredis.Options{
				Addr: "h:1", Protocol: 2, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ReadBufferSize: 4096, WriteBufferSize: 4096, DisableIdentity: true,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
				Dialer: func(context.Context, string, string) (net.Conn, error) {
					return bound(&tape{append([]byte(before), text...), size}, frames{}), nil
				},
			})
			was := allocated()
			ask(t.Context(), c)
			if took := allocated() - was; took > 32<<20 {
				t.Errorf("%d bytes were allocated for %d", took, len(text))
			}
			_ = c.Close()
		}
	})
}
