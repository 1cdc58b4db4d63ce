package wire

import (
	"cmp"
	"context"
	"time"
)

const cancelLimit = time.Second // unless the configuration says something else

// orphaned says that the server may be at something that nobody waits for any more, and that can and shall be cancelled.
func (c *Conn) orphaned() bool { return c.left && c.cancels && len(c.pg.SecretKey()) > 0 }

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
	_ = conn.pg.CancelRequest(ctx) // the server may be what does not answer
	conn.Close()
}
