package suite

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

// oddNames are job names that a careless store mixes up, rejects or cuts.
func oddNames() []string {
	return []string{
		"a/b", "a%2Fb", "a%2fb", "a%252Fb", "a_b", "a", "A", "job", "Job", "JOB", ".", "..", "...", "../x", "./x", "x/..",
		"/", "//", "/x", "x/", " ", "  ", " x", "x ", "{}", "{a}", "}{", "{a}:lease", "%", "%%", "%s", "%00", "|", "a|b",
		"line\nbreak", "line\r\nbreak", "\t", "\x00", "a\x00b", "\x7f", "ä", "a\u0308", "ß", "SS", "日本語", "🦊", "\u202eabc", "\ufeff",
		"*", "?", "[a]", `\`, `\\`, "'", `"`, "$HOME", "`id`", "-", "--", "-x", "~", "~x", "#", "&", "=", ";", ",", ":", "a:b", "@",
		"a.lock", "a.json", "a.beat", ".a", "lease", "record", "a\u00a0b", "null", "0",
		strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("X", 255),
		strings.Repeat("/", 255), strings.Repeat("%", 255), strings.Repeat("ä", 127) + "z", strings.Repeat("🦊", 63),
	}
}

func strangeNames(s *scene) {
	d, other := s.open(), s.open()
	grants := map[string]backends.Grant{}
	life, renewed := s.steadyTTL(), time.Now()
	for _, name := range oddNames() {
		if time.Since(renewed) > life/6 { // this machine is slow
			renewed = time.Now()
			for _, g := range grants {
				s.Renew(d, g)
			}
		}
		c := s.claim()
		c.Job = name
		g, refusal := s.ask(d, c)
		if refusal != nil {
			s.Errorf("job %q is refused as if it were another: %+v", name, *refusal)
			continue
		}
		grants[name] = g
	}
	for name, g := range grants {
		status := s.inspect(other, name)
		if status.Record.Job != name || status.Record.Holder.ID != g.Claim.Holder.ID {
			s.Errorf("job %q: the record is of job %q and %s, want %s", name, status.Record.Job, status.Record.Holder.ID, g.Claim.Holder.ID)
		}
		if l := status.Lease; l == nil || l.Holder != g.Claim.Holder.ID || l.Token != g.Token {
			s.Errorf("job %q: %s", name, leaseText(l))
		}
	}
	got := s.jobs(other)
	got = slices.DeleteFunc(got, func(name string) bool { return grants[name].Token == 0 })
	want := slices.Sorted(slices.Values(oddNames()))
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("Jobs (-want +got):\n%s", diff)
	}
	for name, g := range grants {
		s.Renew(d, g)
		s.Finish(d, g)
		if l := s.inspect(other, name).Lease; l != nil {
			s.Errorf("job %q after Finish: %s", name, leaseText(l))
		}
	}
}

func (s *scene) jobs(d backends.Backend) []string {
	s.Helper()
	names, err := d.Jobs(s.Context())
	if err != nil {
		s.Fatalf("Jobs: %v", err)
	}
	if !slices.IsSorted(names) {
		s.Errorf("Jobs are not sorted: %q", names)
	}
	return names
}

// wantNoAnswer checks the error of a call whose context ended: it must not pass for an answer.
func (s *scene) wantNoAnswer(what string, err error) {
	s.Helper()
	if backends.IsAnswer(err) {
		s.Errorf("%s with a context that ended: %v: that is an answer, want outcome unknown", what, err)
	}
}

func cancelledBefore(s *scene) {
	d := s.open()
	g := s.granted(d, s.claim())
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	other := s.otherJob()
	check := func(what string, f func() error) {
		s.Helper()
		s.returns(what, func() {
			err := f()
			if err == nil {
				s.Errorf("%s with a cancelled context: no error", what)
			}
			s.wantNoAnswer(what, err)
		})
	}
	s.untouched(d, "a call with a cancelled context", func() {
		check("Acquire", func() error { _, err := d.Acquire(ctx, other); return err })
		check("Renew", func() error { _, err := d.Renew(ctx, g); return err })
		check("Finish", func() error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) })
		check("Abandon", func() error { return d.Abandon(ctx, g.Claim) })
		check("Inspect", func() error { _, err := d.Inspect(ctx, s.job); return err })
		check("Jobs", func() error { _, err := d.Jobs(ctx); return err })
		for _, kind := range everyOrder() {
			check(string(kind), func() error { return d.Order(ctx, s.newOrder(kind, g.Token)) })
		}
	})
	s.Renew(d, g)
	s.Finish(d, g)
	if names := s.jobs(d); slices.Contains(names, other.Job) {
		s.Errorf("a claim whose context was cancelled before it was made has made a record")
	}
}

func cancelledInFlight(s *scene) {
	d, other := s.open(), s.open()
	g := s.granted(d, s.claim())
	late := withTick(s.otherJob(), s.tick(1))
	taken := s.otherJob()
	taken.Job += " taken"
	stop := s.newOrder(backends.Stop, g.Token)

	resume := s.h.Stall(s.T)
	defer resume()
	check := func(what string, f func(context.Context) error) {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
		defer cancel()
		s.returns(what, func() { s.wantNoAnswer(what, f(ctx)) })
	}
	check("Acquire", func(ctx context.Context) error { _, err := d.Acquire(ctx, late); return err })
	check("Renew", func(ctx context.Context) error { _, err := d.Renew(ctx, g); return err })
	check("Abandon", func(ctx context.Context) error { return d.Abandon(ctx, taken) })
	check("Order", func(ctx context.Context) error { return d.Order(ctx, stop) })
	check("Inspect", func(ctx context.Context) error { _, err := d.Inspect(ctx, s.job); return err })
	check("Finish", func(ctx context.Context) error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) })
	resume()

	// Whatever of it is still on its way: the outcome can be found out, and what was given up stays so.
	s.eventually("Order", func() error {
		if err := d.Order(s.Context(), stop); !errors.Is(err, backends.ErrOver) {
			return err
		}
		return nil // the end came first
	})
	s.eventually("Finish", func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) })
	s.eventually("Abandon", func() error { return d.Abandon(s.Context(), late) })
	s.refusal(d, late, backends.Abandoned)
	c := withTick(s.claim(), s.tick(1))
	c.Job = late.Job
	next := s.after(other, c)
	s.wantRun(next, s.tick(1), 1)
	s.Finish(other, next)
}

// eventually asks until the outcome is known, as the runner does.
func (s *scene) eventually(what string, f func() error) {
	s.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if errors.Is(err, backends.ErrLost) || time.Now().After(end) {
			s.Fatalf("%s: %v", what, err)
		}
	}
}

// guardedCounter: many claimants add one to a number that nothing but the lease protects.
func guardedCounter(s *scene) {
	const clients = 5
	claimants := s.h.times(50)
	var (
		counter, token atomic.Int64
		all            sync.WaitGroup
		drivers        [clients]backends.Backend
	)
	for i := range drivers {
		drivers[i] = s.open()
	}
	s.Finish(drivers[0], s.granted(drivers[0], s.claim()))
	add := func(d backends.Backend) {
		c := s.claim()
		for end := time.Now().Add(2 * patience); time.Now().Before(end); {
			asked := time.Now()
			g, err := d.Acquire(s.Context(), c)
			if err == nil {
				n, last := counter.Load(), token.Load()
				time.Sleep(max(time.Since(asked), 2*time.Millisecond)) // on a slow machine, others are slow to ask
				counter.Store(n + 1)
				token.Store(g.Token)
				if g.Token <= last {
					s.Errorf("token %d after %d", g.Token, last)
				}
				finish := func() error { return d.Finish(s.Context(), g, backends.Outcome{State: backends.Done}) }
				err = finish()
				for err != nil && !backends.IsAnswer(err) && time.Now().Before(end) { // unknown, on a busy machine
					err = finish()
				}
				if err != nil {
					s.Errorf("Finish: %v", err)
				}
				return
			}
			if r, ok := errors.AsType[*backends.Refusal](err); ok && r.Verdict != backends.Held {
				s.Errorf("Acquire: %v", err)
				return
			}
			time.Sleep(time.Millisecond + rand.N(30*time.Millisecond)) // whoever holds it has work to do
		}
		s.Error("never granted")
	}
	for i := range claimants {
		all.Go(func() { add(drivers[i%clients]) })
	}
	all.Wait()
	if n := counter.Load(); n != int64(claimants) {
		s.Errorf("%d claimants counted to %d: two of them held the lease at once", claimants, n)
	}
}

// newerForm: a newer leaderrun has written the record of a job that runs. Nothing of it is lost: whoever reads it says so, whichever step
// that is, and writes nothing. A renewal may succeed where it does not read the record.
func newerForm(s *scene) {
	d := s.open()
	g := s.granted(d, s.claim())
	s.h.Change(s.T, s.job, func(r *backends.Record) { r.Form = backends.RecordForm + 1 })
	ctx := s.Context()
	isNewer := func(err error) bool {
		_, newer := errors.AsType[backends.NewerForm](err)
		return newer && backends.IsPermanent(err)
	}
	order := func(kind backends.OrderKind, token int64) func() error {
		return func() error {
			return d.Order(ctx, backends.Order{Kind: kind, Job: s.job, By: s.claim().Holder, Token: token})
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"claim", func() error { _, err := d.Acquire(ctx, s.claim()); return err }},
		{"claim again", func() error { _, err := d.Acquire(ctx, g.Claim); return err }},
		{"renewal", func() error { _, err := d.Renew(ctx, g); return err }},
		{"finish", func() error { return d.Finish(ctx, g, backends.Outcome{State: backends.Done}) }},
		{"abandon", func() error { return d.Abandon(ctx, s.claim()) }},
		{"stop", order(backends.Stop, g.Token)},
		{"revoke", order(backends.Revoke, g.Token)},
		{"forced release", order(backends.ForceRelease, g.Token)},
		{"forget", order(backends.ForgetJob, g.Token)},
	} {
		if err := step.do(); !isNewer(err) && (err != nil || step.name != "renewal") {
			s.Errorf("%s: %v, want that the record is of a newer leaderrun", step.name, err)
		}
		if _, err := d.Inspect(ctx, s.job); !isNewer(err) {
			s.Fatalf("after %s the record is of this form, or %v", step.name, err)
		}
	}
}

// watchWakes: a waiter that only looks when it is woken gets the lease after Finish.
func watchWakes(s *scene) {
	d, other := s.open(), s.open()
	for range 3 {
		g := s.granted(d, s.claim())
		ctx, cancel := context.WithCancel(s.Context())
		woken := s.watching(ctx, other)
		c := s.claim()
		s.refusal(other, c, backends.Held)
		s.Finish(d, g)
		s.wokenUntilGranted(other, c, woken)
		cancel()
	}
}

// watching returns a watch that works. What it tells as it begins has been received: what comes next is news.
func (s *scene) watching(ctx context.Context, d backends.Backend) <-chan backends.News {
	s.Helper()
	woken, err := d.Watch(ctx, s.job)
	if err != nil {
		s.Fatalf("Watch: %v", err)
	}
	for late := time.After(patience); ; {
		select {
		case n, open := <-woken:
			if !open {
				s.Fatal("the watch broke")
			}
			if n.Look {
				return woken
			}
		case <-late:
			s.Fatalf("a watch has told nobody to look for %v after it began", patience)
		}
	}
}

func (s *scene) wokenUntilGranted(d backends.Backend, c backends.Claim, woken <-chan backends.News) {
	s.Helper()
	late := time.After(patience)
	for {
		select {
		case _, open := <-woken:
			if !open {
				s.Fatal("the watch broke")
			}
		case <-late:
			s.Fatalf("not woken for %v after Finish", patience)
		}
		g, refusal := s.ask(d, c)
		if refusal == nil {
			s.Finish(d, g)
			return
		}
		if refusal.Verdict != backends.Held {
			s.Fatalf("Acquire: %+v", *refusal)
		}
	}
}

// watchEnds: of a client that is closed nobody waits for news, either, and a watch goes on with none of its retries.
func watchEnds(s *scene) {
	for _, closes := range []bool{false, true} {
		d := s.h.Open(s.T)
		ctx, cancel := context.WithCancel(s.Context())
		woken, err := d.Watch(ctx, s.job)
		if err != nil {
			s.Fatalf("Watch: %v", err)
		}
		if !closes {
			cancel()
		} else if err := d.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
		s.returns("a watch that has ended", func() {
			for range woken { // until it is closed
			}
		})
		cancel()
		if !closes {
			s.Finish(d, s.granted(d, s.claim()))
			_ = d.Close()
		}
	}
}

func inspects(s *scene) {
	d := s.open()
	if _, err := d.Inspect(s.Context(), s.job); !errors.Is(err, backends.ErrUnknownJob) {
		s.Errorf("Inspect of a job that never ran: %v, want ErrUnknownJob", err)
	}
	if slices.Contains(s.jobs(d), s.job) {
		s.Error("Inspect has made a record")
	}
	g := s.granted(d, withTick(s.claim(), s.tick(1)))
	status := s.inspect(d, s.job)
	r, holder := status.Record, g.Claim.Holder
	if r.Job != s.job || r.Token != g.Token || r.Holder != holder || r.TTL != g.TTL.Milliseconds() || r.Free() {
		s.Errorf("record %s", s.text(r))
	}
	// The lease may count from when it was written, a moment after it was decided on.
	if now := status.Now.UnixMilli(); r.Granted == 0 || now < r.Granted || r.Until < r.Granted+r.TTL || r.Until > now+r.TTL {
		s.Errorf("granted %d, until %d, TTL %d, now %d", r.Granted, r.Until, r.TTL, status.Now.UnixMilli())
	}
	if l := status.Lease; l == nil || l.Holder != holder.ID || l.Token != g.Token || l.Left <= 0 || l.Left > d.Limits().TakeOver(g.TTL) {
		s.Errorf("%s: %+v", leaseText(l), l)
	}
	s.untouched(d, "Inspect", func() { s.inspect(d, s.job) })
	s.Finish(d, g)
	status = s.inspect(d, s.job)
	if status.Lease != nil || status.Wait != 0 || !status.Record.Free() {
		s.Errorf("after Finish: %s, wait %v, released %d of %d",
			leaseText(status.Lease), status.Wait, status.Record.Released, status.Record.Token)
	}
	if !slices.Contains(s.jobs(d), s.job) {
		s.Error("Jobs does not name the job")
	}
}

// closeTwice: closing is not releasing.
func closeTwice(s *scene) {
	d, other := s.h.Open(s.T), s.open()
	g := s.granted(d, s.brief())
	for range 2 {
		if err := d.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
	if status := s.inspect(other, s.job); status.Record.Free() {
		s.Error("Close has released the lease")
	}
	s.expire(g)
	s.Finish(other, s.after(other, s.claim()))
}

// noLeaks finds the goroutines of one client by a label that they inherit, because other tests run beside this one.
func noLeaks(s *scene) {
	label := s.claim().Holder.ID
	pprof.Do(s.Context(), pprof.Labels("client", label), func(ctx context.Context) {
		d := s.h.Open(s.T)
		g := s.granted(d, s.claim())
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if _, err := d.Watch(ctx, s.job); err != nil {
			s.Errorf("Watch: %v", err)
		}
		s.Renew(d, g)
		s.refusal(d, s.claim(), backends.Held)
		s.Finish(d, g)
		cancel()
		if err := d.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	var left string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = labelled(label); left == "" {
			return
		}
	}
	s.Errorf("goroutines after Close:\n%s", left)
}

// labelled returns the stacks of the goroutines that have a label.
func labelled(label string) string {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // to memory
	var found []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, label) {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}
