package redis

import (
	"context"
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
	//go:embed read.lua
	readText string
	//go:embed swap.lua
	swapText string
	//go:embed renew.lua
	renewText string
)

// The scripts are put together when they are first used: a run on another backend pays nothing for them.
var (
	readScript  = newScript(&readText)
	swapScript  = newScript(&swapText)
	renewScript = newScript(&renewText)
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
	acks   int64 // the most replicas that are known of; noAcks: nobody minds whether they have it
}

// noAcks is for what only reads, and for what counts without having reached the replicas.
const noAcks = -1

// reply is what a script said. Its first element is the nonce of the request.
type reply struct{ elements []any }

// ask runs a request and returns when ctx ends, also while it is in flight: the client library cannot be
// interrupted (go-redis#2556), so its reply is dropped. After any failure the next request goes out on a
// fresh connection.
func (s *store) ask(ctx context.Context, r request) (reply, error) {
	p, err := s.use()
	if err != nil {
		return reply{}, err
	}
	said, err := panics.Await(ctx, func() (reply, error) {
		defer p.release()
		return s.exchange(ctx, p, r)
	})
	switch {
	case err == nil:
		s.spoke.Store(true)
		return said, nil
	case ctx.Err() != nil:
		err = s.unanswered(fmt.Errorf("no reply: %w", err))
	case backends.IsPermanent(err) && isGarbled(err) && s.spoke.Load():
		err = fmt.Errorf("the reply was cut: %s", err.Error())
	}
	s.drop(p)
	return reply{}, err
}

// unanswered adds to the error of a request that had no answer in time what may be wrong, where there never was one: a plain port
// waits for the end of a line that TLS does not send.
func (s *store) unanswered(err error) error {
	if s.spoke.Load() {
		return err
	}
	return backendurl.Opening(err, s.cfg.TLS != nil, "a Redis")
}

// exchange runs a script on one connection, followed by WAIT where replicas must have what it writes.
func (s *store) exchange(ctx context.Context, p *connPool, r request) (reply, error) {
	client, err := p.client(ctx, s.cfg.key(r.job, "lease"))
	if err != nil {
		return reply{}, classify(s.cfg, err)
	}
	conn := client.Conn() // WAIT speaks of what its own connection wrote
	defer func() { _ = conn.Close() }()

	nonce := s.nonce + strconv.FormatUint(s.requests.Add(1), 36)
	expected := 0
	if r.acks != noAcks {
		expected = s.cfg.required(int(s.mostSeen(r.acks)))
	}
	elements, acked, err := s.eval(ctx, conn, r.script, s.cfg.keys(r.job), append([]any{nonce}, r.args...), expected)
	if err != nil {
		return reply{}, classify(s.cfg, err)
	}
	said := reply{elements}
	if said.text(replyNonce) != nonce {
		return reply{}, errReply
	}
	if r.acks == noAcks || said.text(replySaid) != "done" {
		return said, nil
	}
	replicas, err := strconv.ParseInt(said.text(replyReplicas), 10, 64)
	if err != nil {
		return reply{}, errReply
	}
	need := s.cfg.required(int(s.mostSeen(replicas)))
	if need > expected {
		acked, err = conn.Do(ctx, "wait", need, waitLimit(ctx)).Int()
		if err != nil {
			return reply{}, classify(s.cfg, err)
		}
	}
	if acked < need {
		return reply{}, fmt.Errorf("%d of %d replicas acknowledged it, so a failover could undo it (?replicas=N lowers the number)", acked, need)
	}
	return said, nil
}

// mostSeen returns the highest number of replicas that the mark or this client has ever seen: the mark can be
// deleted. In a Cluster every node has replicas of its own.
func (s *store) mostSeen(replicas int64) int64 {
	if s.cfg.Kind == redisurl.Cluster {
		return replicas
	}
	for {
		seen := s.seen.Load()
		if replicas <= seen {
			return seen
		}
		if s.seen.CompareAndSwap(seen, replicas) {
			return replicas
		}
	}
}

// eval sends the script by its hash and, in the same write, WAIT for n replicas; a server that does not know
// the script gets its text.
func (*store) eval(ctx context.Context, conn *goredis.Conn, s script, keys []string, args []any, n int) ([]any, int, error) {
	text, sha := s()
	send := func(command, script string) ([]any, int, error) {
		words := []any{command, script, len(keys)}
		for _, key := range keys {
			words = append(words, key)
		}
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

// text returns an element of a reply, or "" where that is no string.
func (r reply) text(i int) string {
	if i >= len(r.elements) {
		return ""
	}
	s, _ := r.elements[i].(string)
	return s
}

// hash returns an element that is a list of fields and values; nil: it is none.
func (r reply) hash(i int) hash {
	flat, ok := r.elements[i].([]any)
	if !ok || len(flat)%2 != 0 {
		return nil
	}
	words, h := reply{flat}, hash{}
	for i := 0; i < len(flat); i += 2 {
		h[words.text(i)] = words.text(i + 1)
	}
	return h
}

// numbers reads the numbers of a reply.
type numbers struct {
	reply
	wrong bool // one of them was none
}

func (n *numbers) at(i int) int64 {
	number, err := strconv.ParseInt(n.text(i), 10, 64)
	n.wrong = n.wrong || err != nil
	return number
}
