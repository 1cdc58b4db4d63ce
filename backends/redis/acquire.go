package redis

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Acquire implements backends.Driver.
func (d *Driver) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if c.TTL > d.cfg.longest {
		return backends.Grant{}, backends.Misconfigured(longestHint, "a TTL of %v is longer than this store allows (%v)", c.TTL, d.cfg.longest)
	}
	reply, err := d.ask(ctx, request{
		script: claimScript, job: c.Job, counts: true, args: claimArgs(c, d.cfg.longest),
		check: func(r []any) (any, bool, error) { return claimReply(r, c) },
	})
	if err != nil {
		return backends.Grant{}, backends.About("claim", c.Job, err)
	}
	switch a := reply.(type) {
	case *backends.Refusal:
		return backends.Grant{}, a
	case backends.Grant:
		return a, nil
	}
	panic("unreachable")
}

func claimArgs(c backends.Claim, longest time.Duration) []any {
	deadline := int64(-1)
	if c.StartDeadline > 0 {
		deadline = c.StartDeadline.Milliseconds()
	}
	return who(c, c.TTL.Milliseconds(), c.Floor, c.Tick, c.Once, string(c.OnLost), c.MaxAttempts, deadline,
		c.Schedule.Fingerprint, c.Schedule.Text, c.Unclaimed.Fingerprint, c.Unclaimed.Instant, longest.Milliseconds())
}

// answer is what claim.lua says, as JSON.
type answer struct {
	Verdict backends.Verdict            `json:"verdict"`
	Holder  backends.Holder             `json:"holder"`
	Token   int64                       `json:"token"`
	Wait    int64                       `json:"wait"` // ms
	Seen    struct{ Token, Beat int64 } `json:"seen"`
	Tick    int64                       `json:"tick"`
	Attempt int                         `json:"attempt"`
	At      *int64                      `json:"at"` // ms
	Text    string                      `json:"text"`
	Lease   *int64                      `json:"lease"` // ms
	First   bool                        `json:"first"`
	Lost    few[backends.Occurrence]    `json:"lost"`
	Notes   few[string]                 `json:"notes"`
}

// claimReply reads the reply of claim.lua: a Grant or a *Refusal, and whether it is one that must have
// reached the replicas.
func claimReply(reply []any, c backends.Claim) (any, bool, error) {
	var a answer
	text := element(reply, 3)
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(reply) != 4 || a.Verdict == "" {
		return nil, false, errReply
	}
	if a.Verdict == backends.Granted {
		if a.Token <= 0 || a.Attempt < 0 {
			return nil, false, errReply
		}
		return backends.Grant{
			Claim: c, Token: a.Token, TTL: c.TTL, Tick: a.Tick, Attempt: a.Attempt, Lost: a.Lost, Notes: a.Notes,
		}, true, nil
	}
	r := &backends.Refusal{
		Verdict: a.Verdict, Holder: a.Holder, Token: a.Token, Wait: time.Duration(a.Wait) * time.Millisecond,
		Seen: backends.Evidence{Token: a.Seen.Token, Beat: a.Seen.Beat}, Tick: a.Tick, Text: a.Text, First: a.First,
	}
	if a.At != nil && a.Lease != nil {
		r.At, r.Lease = time.UnixMilli(*a.At), time.UnixMilli(*a.Lease)
	}
	return r, false, nil
}
