package wire

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"time"
)

const (
	cancelRequest = 80877102
	cancelLimit   = time.Second // unless the configuration says something else
)

// orphaned says that the server may be at something that nobody waits for any more, and that can and shall be cancelled.
func (c *Conn) orphaned() bool { return c.left && c.cancels && c.keyed }

// leave closes a connection whose batch nobody waits for any more, after it has told the server so. Without that the
// process that serves it finds out only when it wants to write to us, and one that waits for a synchronous standby holds
// the locks of its transaction until that is back. Nobody waits for it but Close, and that has a limit.
//
// No other statement is hit. The key names one process of the server, or one client of a pooler; what that was sent last
// was the batch, and nothing follows it, because the connection is closed. A batch that has just ended by itself is over
// whatever comes: a process that is idle takes no notice. The connection stays open until the request was heard, because a
// pooler passes it on only while its client is there, and only to the process that serves that client at this moment.
// What PgBouncer before 1.21 does about that is in docs/backends.md.
//
// Nothing is known afterwards that was not known before: whether the batch took place is for whoever asks to find out.
func (c *Client) leave(conn *Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(c.cfg.CancelLimit, cancelLimit))
	defer cancel()
	_ = conn.cancel(ctx, &c.cfg) // the server may be what does not answer
	conn.Close()
}

// cancel asks the server to end what the connection waits for: over a connection of its own to the same host, which is as
// encrypted as this one. It returns when the request was heard, or with ctx.
func (c *Conn) cancel(ctx context.Context, cfg *Config) error {
	// The host's name may have another address by now.
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", c.raw.RemoteAddr().String())
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	alike := *cfg
	alike.Security = Plain
	if c.Encrypted() { // the key is for nobody between
		alike.Security = Must
	}
	request := &Conn{addr: c.addr, raw: raw, conn: raw}
	return request.during(ctx, func() error {
		if err := request.encrypt(ctx, &alike); err != nil {
			return err
		}
		var o output
		o.begin(0)
		o.int32(cancelRequest)
		o.int32(c.pid)
		o.int32(c.secret)
		o.end()
		if err := request.write(&o); err != nil {
			return err
		}
		// There is no answer, and the end comes when there is nothing left to do.
		if _, err := request.conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	})
}
