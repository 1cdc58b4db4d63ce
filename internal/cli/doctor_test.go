package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
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
	for _, c := range []struct {
		name                string
		acquire             func(backends.Claim) (backends.Grant, error)
		renew               func() error
		grade               backends.Grade
		say, remedy         string
		finished, abandoned int
	}{
		{"well", granted, fine, backends.Fine, "one may take 2.5s", "", doctorRounds, 0},
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

// A signal in the middle of a try does not leave the lease behind.
func TestDoctorIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	store := &patient{acquire: granted, renew: func() error { cancel(); return ctx.Err() }}
	x := &doctorCall{store: store, ttl: 15 * time.Second}
	x.tryRun(ctx)
	if store.finished != 1 {
		t.Errorf("finished %d times", store.finished)
	}
}

// Nor does one that comes while the lease is given back.
func TestDoctorIsInterruptedAtTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	store := &patient{acquire: granted, renew: fine, ends: cancel}
	x := &doctorCall{store: store, ttl: 15 * time.Second}
	x.tryRun(ctx)
	if store.finished != 2 {
		t.Errorf("finished %d times, want a second one that nothing interrupts", store.finished)
	}
}

// The doctor of another host is waited for.
func TestDoctorsTakeTurns(t *testing.T) {
	t.Parallel()
	asked := 0
	store := &patient{renew: fine, acquire: func(c backends.Claim) (backends.Grant, error) {
		if asked++; asked == 1 {
			return backends.Grant{}, &backends.Refusal{Verdict: backends.Held}
		}
		return granted(c)
	}}
	x := &doctorCall{store: store, ttl: 15 * time.Second}
	x.tryRun(t.Context())
	if len(x.Findings) != 1 || x.Findings[0].Grade != backends.Fine {
		t.Errorf("%+v", x.Findings)
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
			if c.TTL != want || c.Job != doctorJob {
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

func TestHoldsPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"redis://:sesame@host": true, "redis://user:s@host,host/0": true, "redis://user@host": false, "redis://host": false,
		"redis+sentinel://host/main?sentinel-password=sesame-street": true, "consul://host?token-file=/etc/token": false,
		"file:///dir": false, "": false,
	} {
		if got := holdsPassword(url); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
}
