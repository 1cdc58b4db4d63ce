package redis

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// The hazard: a holder that ends its run on what its last request has left overwrites what came meanwhile. Whatever comes, the end is
// the one of a holder that reads before.
func TestAnEndOnWhatIsKnownIsTheSame(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, servers.RedisOptions{})
	trust(t, s)
	holder, other := open(t, "redis://"+s.Addr()), open(t, "redis://"+s.Addr())
	order := func(job string, kind backends.OrderKind, g backends.Grant) {
		o := backends.Order{Job: job, Kind: kind, By: suite.NewClaim(job, long).Holder, Reason: "so", Token: g.Token, Tick: g.Tick, Key: "before", All: true}
		_ = other.Order(within(t, suite.Patience), o) // refused is an answer, too
	}
	ask := func(job string) {
		c := claim(job, long)
		c.Tick = time.Now().Unix() + 1 // which passes meanwhile
		_, _ = other.Acquire(within(t, suite.Patience), c)
	}
	renew := func(g backends.Grant) { _, _ = other.Renew(within(t, suite.Patience), bare(g)) }
	cases := map[string]func(job string, g backends.Grant){
		"nothing":   func(string, backends.Grant) {},
		"a renewal": func(_ string, g backends.Grant) { renew(g) },
		"a stop":    func(job string, g backends.Grant) { order(job, backends.Stop, g) },
		"a stop, and a renewal elsewhere": func(job string, g backends.Grant) {
			order(job, backends.Stop, g)
			renew(g)
		},
		"revoked":             func(job string, g backends.Grant) { order(job, backends.Revoke, g) },
		"released by force":   func(job string, g backends.Grant) { order(job, backends.ForceRelease, g) },
		"a key is forgotten":  func(job string, g backends.Grant) { order(job, backends.ForgetKey, g) },
		"a tick is forgotten": func(job string, g backends.Grant) { order(job, backends.ForgetTick, g) },
		"the job is forgotten, after a release": func(job string, g backends.Grant) {
			order(job, backends.ForceRelease, g)
			order(job, backends.ForgetJob, g)
		},
		"somebody asks": func(job string, _ backends.Grant) { ask(job) },
		"a claim is taken back": func(job string, _ backends.Grant) {
			c := claim(job, long)
			c.Holder.ID = "x"
			_ = other.Abandon(within(t, suite.Patience), c)
		},
		"another is granted": func(job string, g backends.Grant) {
			order(job, backends.ForceRelease, g)
			_, _ = other.Acquire(within(t, suite.Patience), claim(job, long))
		},
		"another was granted, and has ended": func(job string, g backends.Grant) {
			order(job, backends.ForceRelease, g)
			next, _ := granted(t, other, claim(job, long))
			finish(t, other, next)
		},
		"it has ended already": func(_ string, g backends.Grant) { finish(t, other, bare(g)) },
		"the lease is deleted": func(job string, _ backends.Grant) { lease, _, _ := keys(job); s.Do(t, "del", lease) },
		"the record is deleted": func(job string, _ backends.Grant) {
			_, record, _ := keys(job)
			s.Do(t, "del", record)
		},
		"both are deleted": func(job string, _ backends.Grant) {
			lease, record, _ := keys(job)
			s.Do(t, "del", lease, record)
		},
		"the mark is another's": func(job string, _ backends.Grant) {
			_, _, mark := keys(job)
			s.Do(t, "hset", mark, "epoch", job)
		},
		"the record is an earlier one": func(job string, g backends.Grant) {
			_, record, _ := keys(job)
			text := s.Do(t, "dump", record)
			order(job, backends.Stop, g)
			ask(job)
			s.Do(t, "restore", record, "0", text, "replace")
		},
	}
	for name, meanwhile := range cases {
		for _, renewals := range []int{0, 2} {
			end := func(job string, known bool) (backends.Record, bool, *backends.BreakRequest, error) {
				k := claim(job, long)
				k.Once = "before"
				first, _ := granted(t, holder, k)
				finish(t, holder, first)
				c := claim(job, long)
				c.Tick = time.Now().Unix()
				g, _ := granted(t, holder, c)
				for range renewals {
					if _, err := holder.Renew(within(t, suite.Patience), g); err != nil {
						t.Fatal(err)
					}
				}
				meanwhile(job, g)
				if !known {
					g.Private = backends.NewLeaseCache(nil)
				}
				err := holder.Finish(within(t, suite.Patience), g, backends.Outcome{State: backends.Stopped, Exit: 3})
				status, lost := holder.Inspect(within(t, suite.Patience), job)
				if lost != nil && !errors.Is(lost, backends.ErrUnknownJob) {
					t.Fatal(lost)
				}
				return plain(status.Record), status.Lease != nil, backends.CacheOf(g).Asked(), err
			}
			job := suite.NewClaim("", long).Holder.ID
			r, lease, asked, err := end("known"+job, true)
			wantR, wantLease, wantAsked, wantErr := end("read"+job, false)
			if !reflect.DeepEqual(r, wantR) || lease != wantLease || errors.Is(err, backends.ErrLost) != errors.Is(wantErr, backends.ErrLost) ||
				(err == nil) != (wantErr == nil) || (asked == nil) != (wantAsked == nil) {
				t.Errorf("%s, after %d renewals:\n%+v, lease %v, %v, %v\nwho reads before:\n%+v, lease %v, %v, %v",
					name, renewals, r, lease, err, asked, wantR, wantLease, wantErr, wantAsked)
			}
		}
	}
}

// bare is a grant of which nothing is known but what it says.
func bare(g backends.Grant) backends.Grant {
	g.Private = nil
	return g
}

// plain is a record without what differs from one job, and one moment, to the next.
func plain(r backends.Record) backends.Record {
	free := r.Free()
	r.Job, r.Token, r.Granted, r.Until, r.Ended, r.Released, r.Beat = "", 0, 0, 0, 0, 0, 0
	if free {
		r.Released = 1
	}
	r.Holder.ID = ""
	blank := func(o *backends.Occurrence) {
		o.Claimant.ID = ""
		if o.Tick != 0 {
			o.Tick = 1
		}
	}
	blank(&r.Tick)
	for i := range r.Once {
		blank(&r.Once[i])
	}
	if r.Passed != 0 {
		r.Passed = 1
	}
	for i := range r.Runs {
		x := &r.Runs[i]
		x.Token, x.Started, x.Holder.ID, x.Tick = min(x.Token, 1), 0, "", min(x.Tick, 1)
		x.Ended = min(x.Ended, 1)
	}
	r.Orders, r.Refused = make([]string, len(r.Orders)), make([]string, len(r.Refused))
	if r.Break != nil {
		r.Break = &backends.BreakRequest{Reason: r.Break.Reason, All: r.Break.All}
	}
	return r
}
