package suite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leaderrun/leaderrun/backends"
)

// The history must stay shorter than what a record remembers, or a repeated Finish is forgotten.
const (
	historyClients  = 4
	historyAttempts = 5
	histories       = 4
)

// linearizable records what several clients ask at once and are answered, with requests and replies lost and
// contexts that end in flight, and lets porcupine look for an order of single steps that explains it.
func linearizable(s *scene) {
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	s.Finish(s.open(), s.granted(s.open(), s.otherJob())) // no quarantine from here on
	for i := range histories {
		h := &history{scene: s, job: fmt.Sprint(s.job, " ", i), start: time.Now()}
		var all sync.WaitGroup
		for client := range historyClients {
			c := &historian{history: h, driver: s.open(), id: client, random: rand.New(rand.NewPCG(seed, uint64(i*historyClients+client)))}
			all.Go(c.work)
		}
		all.Wait()
		switch porcupine.CheckOperationsTimeout(leaseModel, h.operations, patience) {
		case porcupine.Illegal:
			s.Errorf("history %d of %d operations is not linearizable:\n%s", i, len(h.operations), h)
		case porcupine.Unknown:
			s.Logf("history %d of %d operations: not decided within %v", i, len(h.operations), patience)
		case porcupine.Ok:
		}
	}
}

// history is what was asked and answered about one job.
type history struct {
	*scene
	job        string
	start      time.Time
	lock       sync.Mutex
	operations []porcupine.Operation
}

func (h *history) String() string {
	var text strings.Builder
	for _, o := range h.operations {
		fmt.Fprintf(&text, "%10d to %20d  client %d  %s\n", o.Call, o.Return, o.ClientId, leaseModel.DescribeOperation(o.Input, o.Output))
	}
	return text.String()
}

// historian is one client.
type historian struct {
	*history
	driver backends.Backend
	id     int
	random *rand.Rand
}

// request and reply are the input and output of an operation on one job.
type request struct {
	kind   string // acquire, renew, finish, abandon
	holder string
	token  int64
}

type reply struct {
	verdict string // ok, lost, held, abandoned, unknown
	token   int64
}

// work makes one attempt after another to run the job.
func (c *historian) work() {
	for range historyAttempts {
		claim := c.claim()
		claim.Job = c.job
		grant, granted := c.contend(claim)
		switch {
		case !granted || c.random.IntN(5) == 0:
			c.insist("abandon", claim, grant)
			if granted {
				c.do("renew", claim, grant)
			}
		default:
			if c.random.IntN(3) == 0 {
				c.do("acquire", claim, grant)
			}
			for range c.random.IntN(3) {
				c.do("renew", claim, grant)
			}
			c.insist("finish", claim, grant)
			c.do("renew", claim, grant)
			c.do("finish", claim, grant)
		}
		c.do("acquire", claim, backends.Grant{})
	}
}

// contend claims until it is granted, or gives up with a claim of unknown outcome.
func (c *historian) contend(claim backends.Claim) (backends.Grant, bool) {
	for range 40 {
		grant, r := c.do("acquire", claim, backends.Grant{})
		switch {
		case r.verdict == "ok":
			return grant, true
		case r.verdict == "unknown" && c.random.IntN(3) == 0:
			return grant, false
		}
		time.Sleep(time.Duration(c.random.IntN(5)) * time.Millisecond)
	}
	return backends.Grant{}, false
}

// insist asks until the outcome is known.
func (c *historian) insist(kind string, claim backends.Claim, grant backends.Grant) {
	for range 100 {
		if _, r := c.do(kind, claim, grant); r.verdict != "unknown" {
			return
		}
	}
	c.Errorf("%s: the outcome stays unknown", kind)
}

// do asks once and notes it. Some requests are lost before they reach the store, some replies on the way
// back, some contexts end in between: all of these may take effect at any later time.
func (c *historian) do(kind string, claim backends.Claim, grant backends.Grant) (backends.Grant, reply) {
	ctx := c.Context()
	cancel := func() {}
	call := time.Since(c.start).Nanoseconds()
	fault := c.random.IntN(20)
	var r reply
	if fault == 0 { // the request is lost
		r = reply{verdict: "unknown"}
	} else {
		if fault == 1 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(c.random.IntN(500))*time.Microsecond)
		}
		g, err := c.send(ctx, kind, claim, grant)
		cancel()
		r = c.replyTo(kind, g, err)
		if fault == 2 { // the reply is lost
			r = reply{verdict: "unknown"}
		}
		if kind == "acquire" && r.verdict == "ok" {
			grant = g
		}
	}
	done := time.Since(c.start).Nanoseconds()
	if r.verdict == "unknown" {
		done = math.MaxInt64
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.operations = append(c.operations, porcupine.Operation{
		ClientId: c.id, Call: call, Return: done, Output: r,
		Input: request{kind: kind, holder: claim.Holder.ID, token: grant.Token},
	})
	return grant, r
}

func (c *historian) send(ctx context.Context, kind string, claim backends.Claim, grant backends.Grant) (backends.Grant, error) {
	var err error
	switch kind {
	case "acquire":
		return c.driver.Acquire(ctx, claim)
	case "renew":
		_, err = c.driver.Renew(ctx, grant)
	case "finish":
		err = c.driver.Finish(ctx, grant, backends.Outcome{State: backends.Done})
	case "abandon":
		err = c.driver.Abandon(ctx, claim)
	}
	return grant, err
}

func (c *historian) replyTo(kind string, g backends.Grant, err error) reply {
	refusal, refused := errors.AsType[*backends.Refusal](err)
	permanent, broken := errors.AsType[*backends.PermanentError](err)
	switch {
	case err == nil && kind == "acquire":
		return reply{verdict: "ok", token: g.Token}
	case err == nil:
		return reply{verdict: "ok"}
	case errors.Is(err, backends.ErrLost):
		return reply{verdict: "lost"}
	case refused:
		return reply{verdict: string(refusal.Verdict)}
	case broken:
		c.Errorf("%s: %v", kind, permanent)
	}
	return reply{verdict: "unknown"}
}

// leaseState is what one job's lease may look like between two steps.
type leaseState struct {
	holder string // "": free
	token  int64  // of the holder; -1: nobody has been told it
	last   int64  // the highest token that anybody was told
	over   string // holders whose run has ended or who took their claim back
}

const idLength = 32

func (l leaseState) isOver(holder string) bool {
	for i := 0; i < len(l.over); i += idLength {
		if l.over[i:i+idLength] == holder {
			return true
		}
	}
	return false
}

// end makes the holder's run or claim over, in an order that does not depend on when.
func (l leaseState) end(holder string) leaseState {
	if l.holder == holder {
		l.holder, l.token = "", 0
	}
	if l.isOver(holder) {
		return l
	}
	i := 0
	for i < len(l.over) && l.over[i:i+idLength] < holder {
		i += idLength
	}
	l.over = l.over[:i] + holder + l.over[i:]
	return l
}

// carries says whether the lease may carry the token, and returns the state in which it is known to.
func (l leaseState) carries(token int64) (bool, leaseState) {
	if l.token == -1 && token > l.last {
		l.token, l.last = token, token
	}
	return l.token == token, l
}

// leaseModel is the lease as the contract describes it. Expiry is kept out of the histories.
var leaseModel = porcupine.Model{
	Init: func() any { return leaseState{} },
	Step: func(state, input, output any) (bool, any) {
		l, q, r := state.(leaseState), input.(request), output.(reply)
		switch q.kind {
		case "acquire":
			return l.acquire(q, r)
		case "renew":
			return l.renew(q, r)
		case "finish":
			return l.finish(q, r)
		}
		return r.verdict == "ok" || r.verdict == "unknown", l.end(q.holder)
	},
	DescribeOperation: func(input, output any) string {
		q, r := input.(request), output.(reply)
		return fmt.Sprintf("%s by %.6s with token %d: %s %d", q.kind, q.holder, q.token, r.verdict, r.token)
	},
}

func (l leaseState) acquire(q request, r reply) (bool, any) {
	free := l.holder == "" && !l.isOver(q.holder)
	switch r.verdict {
	case "ok":
		if free {
			l.holder, l.token = q.holder, -1
		}
		if l.holder != q.holder {
			return false, l
		}
		return l.carries(r.token)
	case "held":
		return l.holder != "" && l.holder != q.holder, l
	case "abandoned":
		return l.holder == "" && l.isOver(q.holder), l
	case "unknown":
		if free {
			l.holder, l.token = q.holder, -1
		}
		return true, l
	}
	return false, l
}

func (l leaseState) renew(q request, r reply) (bool, any) {
	switch r.verdict {
	case "ok":
		if l.holder != q.holder {
			return false, l
		}
		return l.carries(q.token)
	case "lost":
		return l.holder != q.holder, l
	}
	return r.verdict == "unknown", l
}

func (l leaseState) finish(q request, r reply) (bool, any) {
	mine := l.holder == q.holder
	switch r.verdict {
	case "ok":
		if mine {
			ok, l := l.carries(q.token)
			return ok, l.end(q.holder)
		}
		return l.isOver(q.holder), l
	case "unknown":
		if mine {
			l = l.end(q.holder)
		}
		return true, l
	}
	return false, l
}
