package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/cli"
)

// patient is a store that answers as a test says. What a test does not expect panics.
type patient struct {
	backends.Backend
	acquire   func(c backends.Claim) (backends.Grant, error)
	renew     func() error
	ends      func() // while a run ends; may be nil
	finished  int
	abandoned int
	limits    backends.Limits
}

func (p *patient) Limits() backends.Limits { return p.limits }

func (p *patient) Acquire(_ context.Context, c backends.Claim) (backends.Grant, error) {
	return p.acquire(c)
}

func (p *patient) Renew(context.Context, backends.Grant) (backends.RenewAnswer, error) {
	return backends.RenewAnswer{}, p.renew()
}

func (p *patient) Finish(ctx context.Context, _ backends.Grant, _ backends.Outcome) error {
	p.finished++
	if p.ends != nil {
		p.ends()
	}
	return ctx.Err()
}

func (p *patient) Abandon(ctx context.Context, _ backends.Claim) error {
	p.abandoned++
	return ctx.Err()
}

func granted(c backends.Claim) (backends.Grant, error) {
	return backends.Grant{Claim: c, TTL: c.TTL}, nil
}

func fine() error { return nil }

func TestDoctorTriesARun(t *testing.T) {
	t.Parallel()
	refuse := func(v backends.Verdict) func(backends.Claim) (backends.Grant, error) {
		return func(backends.Claim) (backends.Grant, error) {
			return backends.Grant{}, &backends.Refusal{Verdict: v, Wait: 7 * time.Second, Holder: backends.Holder{Host: "web1", PID: 7}}
		}
	}
	denied := &backends.PermanentError{Kind: backends.Credentials, Err: errors.New("no rights"), Hint: "grant them"}
	others := true
	afterAnother := func(c backends.Claim) (backends.Grant, error) {
		if others {
			others = false
			return backends.Grant{}, &backends.Refusal{Verdict: backends.Held}
		}
		return granted(c)
	}
	for _, c := range []struct {
		name                string
		acquire             func(backends.Claim) (backends.Grant, error)
		renew               func() error
		grade               backends.Grade
		say, remedy         string
		finished, abandoned int
	}{
		{"well", granted, fine, backends.Fine, "one may take 2.5s", "", doctorRounds, 0},
		{"another host's doctor is waited for", afterAnother, fine, backends.Fine, "one may take 2.5s", "", doctorRounds, 0},
		{"a doctor was killed", refuse(backends.Vanished), fine, backends.Warning, "web1, process 7", "try again in 7s", 0, 0},
		{"quarantine", refuse(backends.Quarantined), fine, backends.Warning, "gives none for 7s", "try again in 7s", 0, 0},
		{"an answer that makes no sense", refuse(backends.IsDone), fine, backends.Bad, "done", "history", 0, 0},
		{
			"no rights", func(backends.Claim) (backends.Grant, error) { return backends.Grant{}, denied }, fine,
			backends.Bad, "no rights", "grant them", 0, 1,
		},
		{
			"no answer: the claim may have arrived, and is taken back",
			func(backends.Claim) (backends.Grant, error) { return backends.Grant{}, errors.New("no reply") }, fine,
			backends.Bad, "no reply", "log-level", 0, 1,
		},
		{
			"not renewed: the lease is not left behind", granted, func() error { return errors.New("no reply") },
			backends.Bad, "no reply", "log-level", 1, 0,
		},
	} {
		store := &patient{acquire: c.acquire, renew: c.renew}
		x := &doctorCall{store: store, ttl: 15 * time.Second}
		x.tryRun(t.Context())
		if len(x.Findings) != 1 {
			t.Errorf("%s: %+v", c.name, x.Findings)
			continue
		}
		f := x.Findings[0]
		if f.Grade != c.grade || !strings.Contains(f.Why, c.say) || !strings.Contains(f.Remedy, c.remedy) || (f.Remedy == "") != (c.remedy == "") {
			t.Errorf("%s: %+v", c.name, f)
		}
		if store.finished != c.finished || store.abandoned != c.abandoned {
			t.Errorf("%s: finished %d times, abandoned %d times", c.name, store.finished, store.abandoned)
		}
	}
}

// A signal does not leave the lease behind, neither in the middle of a try nor while the lease is given back.
func TestDoctorIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, ending := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		store, want := &patient{acquire: granted, renew: func() error { cancel(); return ctx.Err() }}, 1
		if ending {
			store.renew, store.ends, want = fine, cancel, 2 // the second one is interrupted by nothing
		}
		(&doctorCall{store: store, ttl: 15 * time.Second}).tryRun(ctx)
		if store.finished != want {
			t.Errorf("while it ends: %v: finished %d times, want %d", ending, store.finished, want)
		}
	}
}

// A TTL that the store does not keep is no reason not to try.
func TestDoctorClaimsForATTLThatFits(t *testing.T) {
	t.Parallel()
	limits := backends.Limits{MinTTL: 10 * time.Second, MaxTTL: 30 * time.Second}
	for asked, want := range map[time.Duration]time.Duration{
		5 * time.Second: limits.MinTTL, 15 * time.Second: 15 * time.Second, time.Minute: limits.MaxTTL,
	} {
		store := &patient{limits: limits, renew: fine, acquire: func(c backends.Claim) (backends.Grant, error) {
			if c.TTL != want || c.Job != cli.DoctorJob {
				t.Errorf("%v: claimed %q for %v, want %v", asked, c.Job, c.TTL, want)
			}
			return granted(c)
		}}
		(&doctorCall{store: store, ttl: asked}).tryRun(t.Context())
	}
}

func TestDoctorComparesTheRoundTripWithTheTTL(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		p    pace
		want backends.Grade
	}{
		{pace{20 * ms, 900 * ms, 30 * ms}, backends.Fine},
		{pace{20 * ms, 1300 * ms, 30 * ms}, backends.Warning},
		{pace{1300 * ms, 20 * ms, 30 * ms}, backends.Warning},
		{pace{20 * ms, 30 * ms, 2600 * ms}, backends.Bad},
	} {
		x := &doctorCall{ttl: 15 * time.Second}
		x.judge("round trip", c.p)
		if x.Findings[0].Grade != c.want {
			t.Errorf("%+v: %+v, want %s", c.p, x.Findings[0], c.want)
		}
	}
}

func TestDoctorJudgesThisHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		judge func(f *checkup.Findings)
		want  backends.Grade
		say   string
	}{
		{func(f *checkup.Findings) { killTier(f, "cgroup+subreaper") }, backends.Fine, "cgroup"},
		{func(f *checkup.Findings) { killTier(f, "subreaper") }, backends.Fine, "without a cgroup"},
		{func(f *checkup.Findings) { killTier(f, "process group") }, backends.Warning, "not found"},
		{func(f *checkup.Findings) { judgeClock(f, true, 30*time.Millisecond, nil) }, backends.Fine, "30ms"},
		{func(f *checkup.Findings) { judgeClock(f, false, 0, nil) }, backends.Warning, "not synchronised"},
		{func(f *checkup.Findings) { judgeClock(f, false, 0, errors.New("denied")) }, backends.Fine, "denied"},
	} {
		var f checkup.Findings
		c.judge(&f)
		if len(f) != 1 || f[0].Grade != c.want || !strings.Contains(f[0].Why, c.say) || (f[0].Remedy == "") != (c.want == backends.Fine) {
			t.Errorf("%+v, want %s with %q", f, c.want, c.say)
		}
	}
}
