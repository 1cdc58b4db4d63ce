package history

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
)

// A history stays shorter than what a record remembers, or the answer to a step that is repeated late is forgotten.
const (
	clientsOfJob     = 4
	attemptsOfClient = 4
)

// client makes one attempt after another to run a job, like a host that crashes, sleeps and repeats itself a lot.
type client struct {
	*history
	t      testing.TB
	id     int
	driver backends.Driver
	random *mathrand.Rand
	ttl    time.Duration
	latest *atomic.Int64 // the number of the latest tick
	first  int64         // the first tick; 0: runs of this job have none
	parts  int           // the job is one of so many shards, as most clients believe; 0: it is whole
	former []backends.Grant
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// upTo returns a random time.
func (c *client) upTo(d time.Duration) time.Duration { return time.Duration(c.random.Int64N(int64(d))) }

// work makes attempts until the context ends. What it began then is brought to an end.
func (c *client) work(ctx context.Context) {
	for range attemptsOfClient {
		if ctx.Err() != nil {
			return
		}
		claim := c.newClaim()
		grant, granted := c.contend(ctx, &claim)
		if granted {
			c.former = append(c.former, grant)
			c.run(ctx, claim, grant)
		}
		if c.random.IntN(3) > 0 {
			c.latest.Add(1)
		}
	}
}

func (c *client) newClaim() backends.Claim {
	claim := backends.Claim{Job: c.job, Holder: backends.Holder{ID: newID(), Host: "host", PID: 1, User: "user"}, TTL: c.ttl}
	if c.first != 0 {
		claim.Tick = c.first + 10*(c.latest.Load()-int64(c.random.IntN(10)/9))
		claim.Parts = c.parts
		if c.parts != 0 && c.random.IntN(6) == 0 {
			claim.Parts--
		}
		claim.OnLost, claim.MaxAttempts = backends.Skip, 1
		if c.random.IntN(3) > 0 {
			claim.OnLost, claim.MaxAttempts = backends.Rerun, 2+c.random.IntN(2)
		}
	}
	return claim
}

// contend claims until the claim is granted or of no use. Where it gives up without an answer, it takes the claim back
// or, in a store where that frees the lease in the end, dies.
func (c *client) contend(ctx context.Context, claim *backends.Claim) (backends.Grant, bool) {
	var seen boottime.Instant // when the evidence was first seen
	for ctx.Err() == nil {
		if claim.Seen.Token != 0 {
			claim.Seen.For = boottime.Now().Sub(seen)
		}
		grant, err := c.claims(*claim)
		refusal := refusalOf(err)
		fate := c.random.IntN(12)
		switch {
		case err == nil:
			return grant, true
		case refusal == nil && fate == 0 && c.expires:
			return grant, false
		case refusal == nil && fate == 1:
			c.takeBack(*claim)
			return grant, false
		case refusal == nil:
		case refusal.Verdict != backends.Held && refusal.Verdict != backends.Vanished && refusal.Verdict != backends.Quarantined:
			c.takeBack(*claim)
			return grant, false
		case refusal.Seen.Token != claim.Seen.Token || refusal.Seen.Beat != claim.Seen.Beat:
			claim.Seen, seen = refusal.Seen, boottime.Now()
		}
		pause(ctx, 10*time.Millisecond+c.upTo(150*time.Millisecond))
	}
	c.takeBack(*claim)
	return backends.Grant{}, false
}

// run is the life of a holder.
func (c *client) run(ctx context.Context, claim backends.Claim, grant backends.Grant) {
	for range c.random.IntN(6) {
		pause(ctx, c.upTo(c.ttl/3))
		switch c.random.IntN(8) {
		case 0:
			if again, err := c.claims(claim); err == nil {
				grant = again
				c.former = append(c.former, again)
			}
		case 1:
			c.renews(c.former[c.random.IntN(len(c.former))])
		default:
			c.renews(grant)
		}
	}
	if ctx.Err() == nil {
		switch c.random.IntN(10) {
		case 0, 1:
			c.dies(grant)
			return
		case 2, 3: // it sleeps, and does not know for how long
			pause(ctx, c.ttl+c.upTo(2*c.ttl))
			c.renews(grant)
		case 4:
			c.takeBack(claim)
			c.renews(grant)
			return
		}
	}
	c.ends(claim, grant)
}

// ends reports the end of a run until the store has taken it, and sometimes once more.
func (c *client) ends(claim backends.Claim, grant backends.Grant) {
	states := []backends.State{backends.Done, backends.Done, backends.Failed, backends.Stopped, backends.Lost, backends.Open}
	outcome := backends.Outcome{State: states[c.random.IntN(len(states))]}
	if c.insist("finish", func() reply { return c.finishes(grant, outcome) }) == gone {
		c.takeBack(claim) // or a claim that is still on its way would come later
	}
	if c.random.IntN(4) == 0 {
		stale := c.former[c.random.IntN(len(c.former))]
		c.renews(stale)
		c.finishes(stale, backends.Outcome{State: backends.Failed})
		_, _ = c.claims(claim)
	}
}

// takeBack takes a claim back until the store has heard of it. Sometimes the claim arrives once more.
func (c *client) takeBack(claim backends.Claim) {
	c.insist("abandon", func() reply { return c.abandons(claim) })
	if c.random.IntN(3) == 0 {
		_, _ = c.claims(claim)
	}
}

// insist asks until there is an answer.
func (c *client) insist(what string, ask func() reply) backends.Verdict {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if r := ask(); r.verdict != unknown {
			return r.verdict
		}
		time.Sleep(c.upTo(50 * time.Millisecond))
	}
	c.t.Logf("%s: no answer within %v", what, patience)
	return unknown
}
