package redis

import (
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"github.com/leaderrun/leaderrun/backends"
)

// drawing makes random worlds from small pools, so that things meet.
type drawing struct {
	*rapid.T
	r *rand.Rand
}

func pick[T any](d drawing, of ...T) T { return of[d.r.IntN(len(of))] }

const (
	epoch    = int64(1_790_000_000_000) // ms
	someTick = epoch/1000 - 500
)

func (d drawing) holder() backends.Holder {
	return pick(d, backends.Holder{ID: "aa", Host: "h\"1/ü", PID: 1, User: "u"}, backends.Holder{ID: "bb", Host: "h2", PID: 2},
		backends.Holder{ID: "cc"}, backends.Holder{})
}

func (d drawing) someone() backends.Holder {
	for {
		if h := d.holder(); h.ID != "" {
			return h
		}
	}
}

func (d drawing) ms() int64 {
	return epoch + pick[int64](d, -90_000, -60_000, -20_000, -1000, 0, 1, 1000, 14_000, 15_000, 30_000, 70_000)
}
func (d drawing) token() int64 { return epoch - 20_000 + int64(d.r.IntN(4)) }
func (d drawing) tick() int64 {
	return someTick + pick[int64](d, 0, 0, 10, 10, 20, 400, 440, 450, 550, 600)
}

func (d drawing) state() backends.State {
	return pick(d, backends.Open, backends.Claimed, backends.Claimed, backends.Done, backends.Failed, backends.Stopped, backends.Lost, backends.Missed)
}

func (d drawing) policy() backends.Policy {
	return pick(d, backends.Skip, backends.Rerun, backends.Rerun)
}

func (d drawing) occurrence() backends.Occurrence {
	return backends.Occurrence{
		State: d.state(), Claimant: d.holder(), Policy: d.policy(), Attempt: d.r.IntN(4), MaxAttempts: d.r.IntN(4),
	}
}

func (d drawing) fingerprint() string { return pick(d, "1", "2", "3") }

func (d drawing) schedule() backends.Schedule {
	f := d.fingerprint()
	return backends.Schedule{Fingerprint: f, Text: "0 2 * * * " + f, By: d.holder(), At: d.ms()}
}

func some[T any](d drawing, n int, of func() T) []T {
	var list []T
	for range n {
		list = append(list, of())
	}
	return list
}

func (d drawing) record() backends.Record {
	switch d.r.IntN(12) {
	case 0:
		return backends.Record{}
	case 1: // what an abandoned or refused claim leaves of a job that never ran
		return backends.Record{Job: "job", Refused: []string{"aa"}, Passed: pick(d, 0, d.tick())}
	}
	r := backends.Record{
		Job: "job", Token: d.token(), Holder: d.holder(), TTL: pick[int64](d, 15_000, 5000, 1), Granted: d.ms(), Until: d.ms(),
		Beat: int64(d.r.IntN(3)), Released: d.token(), Ended: pick(d, 0, epoch-100_000, d.ms()), Passed: pick(d, 0, 0, d.tick()),
		Refused: some(d, pick(d, 0, 0, 1, 20), func() string { return pick(d, "aa", "zz", "zz", "zz", "zz") }),
		Runs: some(d, pick(d, 0, 1, 3, 20), func() backends.Run {
			run := backends.Run{
				Token: pick(d, 0, d.token(), d.token()), Holder: d.holder(), Attempt: d.r.IntN(3), Started: d.ms(),
				Ended: pick(d, 0, 0, 0, d.ms()), State: d.state(), Exit: pick(d, 0, 3, 137), Note: pick(d, "", "", "broken"),
			}
			switch d.r.IntN(3) {
			case 0:
				run.Tick = d.tick()
			case 1:
				run.Key = pick(d, "a", "b", "ü/\"")
			}
			return run
		}),
	}
	if d.r.IntN(4) > 0 {
		r.Released = r.Token
	}
	if d.r.IntN(4) > 0 {
		r.Tick = d.occurrence()
		r.Tick.Tick = d.tick()
	}
	r.Once = some(d, pick(d, 0, 1, 2, 100), func() backends.Occurrence {
		o := d.occurrence()
		o.Key = pick(d, "a", "b", "c", "d")
		return o
	})
	if d.r.IntN(2) == 0 {
		r.Schedule = d.schedule()
		r.Former = some(d, pick(d, 0, 1, 3, 8), d.schedule)
	}
	if d.r.IntN(3) == 0 {
		r.Break = &backends.BreakRequest{
			Token: pick(d, r.Token, r.Token, d.token()), By: d.holder(), Reason: pick(d, "", "why \"not\" / ü"), At: d.ms(),
		}
	}
	r.Orders = some(d, pick(d, 0, 0, 1, 20), func() string { return pick(d, "order", "zz", "zz", "zz", "zz") })
	return r
}

func (d drawing) world() world {
	w := world{now: epoch, record: d.record(), longest: pick(d, 30*time.Second, 15*time.Second)}
	if d.r.IntN(3) == 0 {
		w.lease = &backends.Lease{Holder: d.someone().ID, Token: d.token(), Left: pick(d, 0, time.Millisecond, 14*time.Second)}
	}
	w.server = serverFacts{
		runID: "run1", replID: "repl1", uptime: pick[int64](d, 0, 1, 14, 15, 16, 29, 31, 100_000), replicas: d.r.IntN(3),
		pseudo: d.r.IntN(4) == 0, evicted: pick(d, 0, 0, 0, 1), promoted: d.r.IntN(4) == 0,
		commands: pick(d, "get", "get", "get", "flushnothing", "", "flushall", "flushdb", "swapdb", "debug", "config|resetstat", "config"),
	}
	if d.r.IntN(8) > 0 {
		w.mark = backends.Mark{
			Identity: pick(d, "run1:repl1", "run1:repl1", "run1:repl1", "run1:repl1", "run1:repl1",
				"run1:repl1", "run1:repl1", "run1:repl1", "run1:repl2", "run2:repl1", "run2:repl2"),
			Replicas: d.r.IntN(3), Longest: pick[int64](d, 30_000, 15_000, 60_000), Until: pick(d, 0, 0, 0, 0, 0, 0, 0, d.ms()),
			Evicted: pick[int64](d, 0, 0, 0, 1),
		}
	}
	return w
}

func (d drawing) claim() backends.Claim {
	c := backends.Claim{
		Job: "job", Holder: d.someone(), TTL: pick(d, 15*time.Second, 5*time.Second), Floor: pick(d, 0, epoch+5, d.token()),
	}
	if d.r.IntN(2) == 0 {
		c.Holder = backends.Holder{ID: "new", Host: "h3", PID: 3, User: "u"}
	}
	switch d.r.IntN(8) {
	case 0:
	case 1, 2:
		c.Once = pick(d, "a", "b", "c", "ü/\"")
	default:
		c.Tick = d.tick()
		if d.r.IntN(2) == 0 {
			c.Schedule = backends.Schedule{Fingerprint: d.fingerprint(), Text: "text"}
			c.Unclaimed = backends.Unclaimed{Fingerprint: d.fingerprint(), Instant: epoch/1000 - int64(d.r.IntN(100))}
		}
	}
	c.OnLost, c.MaxAttempts = d.policy(), 1+d.r.IntN(3)
	c.StartDeadline = pick(d, 0, 0, time.Microsecond, time.Minute, 10*time.Minute)
	return c
}

func (d drawing) order(w world) backends.Order {
	o := backends.Order{
		Job: "job", By: backends.Holder{ID: "order", Host: "h4", PID: 4, User: "jo"}, Reason: pick(d, "", "why \"not\" / ü"),
		Token: pick(d, w.record.Token, w.record.Token, d.token()), Key: pick(d, "a", "b", "c"),
		Tick: pick(d, w.record.Tick.Tick, w.record.Tick.Tick, d.tick()),
		Kind: pick(d, backends.Stop, backends.Entomb, backends.DeclareDead, backends.ForgetTick, backends.ForgetKey,
			backends.ForgetSchedule, backends.ForgetJob),
	}
	if w.lease != nil && d.r.IntN(2) == 0 {
		o.Token = w.lease.Token
	}
	return o
}
