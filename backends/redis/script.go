package redis

import (
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // as below
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/redisurl"
)

var (
	//go:embed common.lua
	commonText string
	//go:embed claim.lua
	claimText string
	//go:embed renew.lua
	renewText string
	//go:embed finish.lua
	finishText string
	//go:embed abandon.lua
	abandonText string
	//go:embed inspect.lua
	inspectText string
	//go:embed order.lua
	orderText string
)

// The scripts are put together when they are first used: a run on another backend pays nothing for them.
var (
	claimScript   = newScript(&claimText)
	renewScript   = newScript(&renewText)
	finishScript  = newScript(&finishText)
	abandonScript = newScript(&abandonText)
	inspectScript = newScript(&inspectText)
	orderScript   = newScript(&orderText)
)

// script is one Lua script with common.lua in front.
type script func() (text, sha string)

func newScript(own *string) script {
	return sync.OnceValues(func() (string, string) {
		text := commonText + *own
		sum := sha1.Sum([]byte(text)) //nolint:gosec // the name that EVALSHA gives to a script
		return text, hex.EncodeToString(sum[:])
	})
}

// errReply says that a reply is not one to this request (CVE-2025-29923), or not of our script. Nothing is known then.
var errReply = errors.New("the reply does not belong to the request")

// request is one script to run for one job.
type request struct {
	script script
	job    string
	args   []any // without the nonce
	counts bool  // the step counts only when the replicas have it
	// check reads the reply. ok: it is a success, which must have reached the replicas.
	check func(reply []any) (result any, ok bool, err error)
}

// ask runs a request and returns when ctx or the driver ends, also while it is in flight: the client library cannot be
// interrupted (go-redis#2556), so its reply is dropped. After any failure the next request goes out on a
// fresh connection.
func (d *Driver) ask(ctx context.Context, r request) (any, error) {
	ctx, cancel := backends.During(ctx, d.life)
	defer cancel()
	l, err := d.use()
	if err != nil {
		return nil, err
	}
	type outcome struct {
		result any
		err    error
	}
	done := make(chan outcome, 1)
	panics.Go(func() {
		defer l.release()
		result, err := d.exchange(ctx, l, r)
		done <- outcome{result, err}
	})
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		o.err = fmt.Errorf("no reply: %w", context.Cause(ctx))
		if !d.spoke.Load() { // a plain port waits for the end of a line that TLS does not send
			o.err = backendurl.Opening(o.err, d.cfg.TLS != nil, "a Redis")
		}
	}
	if o.err == nil || errors.Is(o.err, backends.ErrLost) || errors.Is(o.err, backends.ErrUnknownJob) {
		d.spoke.Store(true)
	} else if backends.IsPermanent(o.err) && isGarbled(o.err) && d.spoke.Load() {
		o.err = fmt.Errorf("the reply was cut: %s", o.err.Error())
	}
	if o.err != nil && !errors.Is(o.err, backends.ErrLost) && !errors.Is(o.err, backends.ErrUnknownJob) {
		d.drop(l)
	}
	return o.result, o.err
}

// exchange runs a script on one connection, followed by WAIT where replicas must have it.
func (d *Driver) exchange(ctx context.Context, l *link, r request) (any, error) {
	client, err := l.client(ctx, d.cfg.key(r.job, "lease"))
	if err != nil {
		return nil, classify(d.cfg, err)
	}
	conn := client.Conn() // WAIT speaks of what its own connection wrote
	defer func() { _ = conn.Close() }()

	nonce := d.nonce + strconv.FormatUint(d.requests.Add(1), 36)
	args := append([]any{nonce}, r.args...)
	expected := 0
	if r.counts {
		expected = d.cfg.required(int(d.seen.Load()))
	}
	reply, acked, err := d.eval(ctx, conn, r.script, d.cfg.keys(r.job), args, expected)
	if err != nil {
		return nil, classify(d.cfg, err)
	}
	if got := element(reply, 0); got != nonce {
		return nil, errReply
	}
	if !r.counts {
		result, _, err := r.check(reply)
		return result, err
	}
	holder := element(reply, 1)
	replicas, err := intElement(reply, 2)
	if err != nil || holder != r.args[1] {
		return nil, errReply
	}
	if d.cfg.Kind != redisurl.Cluster { // where every node has replicas of its own
		replicas = d.mostSeen(replicas)
	}
	result, ok, err := r.check(reply)
	if err != nil || !ok {
		return result, err
	}
	need := d.cfg.required(int(replicas))
	if need > expected {
		acked, err = conn.Do(ctx, "wait", need, waitLimit(ctx)).Int()
		if err != nil {
			return nil, classify(d.cfg, err)
		}
	}
	if acked < need {
		return nil, fmt.Errorf("%d of %d replicas acknowledged it, so a failover could undo it (?replicas=N lowers the number)", acked, need)
	}
	return result, nil
}

// mostSeen returns the highest number of replicas that the mark or this driver has ever seen: the mark can be
// deleted.
func (d *Driver) mostSeen(replicas int64) int64 {
	for {
		seen := d.seen.Load()
		if replicas <= seen {
			return seen
		}
		if d.seen.CompareAndSwap(seen, replicas) {
			return replicas
		}
	}
}

// eval sends the script by its hash and, in the same write, WAIT for n replicas; a server that does not know
// the script gets its text.
func (d *Driver) eval(ctx context.Context, conn *goredis.Conn, s script, keys []string, args []any, n int) ([]any, int, error) {
	text, sha := s()
	send := func(command, script string) ([]any, int, error) {
		words := append([]any{command, script, len(keys)}, toAny(keys)...)
		pipe := conn.Pipeline()
		reply := pipe.Do(ctx, append(words, args...)...)
		var wait *goredis.Cmd
		if n > 0 {
			wait = pipe.Do(ctx, "wait", n, waitLimit(ctx))
		}
		_, failed := pipe.Exec(ctx)
		if err := reply.Err(); err != nil {
			return nil, 0, err
		}
		if failed != nil && wait == nil { // a connection that could not be set up leaves no error in the command
			return nil, 0, failed
		}
		values, err := reply.Slice()
		if err != nil || wait == nil {
			return values, 0, err
		}
		if err := errors.Join(wait.Err(), failed); err != nil {
			return nil, 0, err
		}
		acked, err := wait.Int()
		return values, acked, err
	}
	reply, acked, err := send("evalsha", sha)
	if err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") {
		return send("eval", text)
	}
	return reply, acked, err
}

// waitLimit is how long the server may wait for replicas, in ms: less than we do, so that its answer arrives.
// A server at rest looks at its clock ten times a second (`hz`).
func waitLimit(ctx context.Context) int64 {
	limit := readTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	limit -= max(limit/10, min(limit/2, 150*time.Millisecond))
	return max(limit.Milliseconds(), 1) // 0 would be without limit
}

// still reads a reply that says whether the lease is the grant's.
func still(reply []any, yes string, token int64, size int) (bool, error) {
	said := element(reply, 3)
	echoed, err := intElement(reply, 4)
	if err != nil || echoed != token || len(reply) != size || (said != yes && said != "lost") {
		return false, errReply
	}
	return said == yes, nil
}

func orLost(err error) error {
	if err != nil {
		return err
	}
	return backends.ErrLost
}

// element returns an element of a reply, or "" where that is no string.
func element(reply []any, i int) string {
	if i >= len(reply) {
		return ""
	}
	s, _ := reply[i].(string)
	return s
}

func intElement(reply []any, i int) (int64, error) {
	s := element(reply, i)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errReply
	}
	return n, nil
}

func toAny(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "-"
}
