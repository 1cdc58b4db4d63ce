package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
)

const (
	steady = time.Minute           // a TTL that does not run out during a case
	slack  = 20 * time.Millisecond // rounding between the store's clock and ours
)

// patience is for the suite what Patience is, but where the suite itself is tested.
var patience = Patience

// testCase is one property. A case whose needs a store cannot meet is skipped.
type testCase struct {
	name  string
	needs *function // nil: nothing
	run   func(s *scene)
}

// cases is the whole suite.
var cases = slices.Concat(waitingCases, alone())

// alone are the cases that run one after another. The last one leaves a record behind that nobody can read or list.
func alone() []testCase {
	return slices.Concat(leaseCases, orderCases, []testCase{{"a record of a newer form stays as it is", hasChange, newerForm}})
}

// waitingCases mostly wait for a lease to run out, and do nothing to the store that others could notice: they run side by side.
var waitingCases = []testCase{
	{"a renewal counts until the lease expires", nil, renewalCounts},
	{"a stale finish touches nothing", nil, staleFinish},
	{"a stale abandon touches no lease", nil, staleAbandon},
	{"a renewal never revives a finished lease", nil, renewNeverRevives},
	{"the token grows", nil, tokenGrows},
	{"expiry hands over", nil, expiryHandsOver},
	{"a vanished lease is waited for", hasDeleteLease, vanishedIsWaitedFor},
	{"finish after somebody else was granted", hasDeleteLease, finishTooLate},
	{"a tick is granted once", nil, tickOnce},
	{"a lost tick runs again if asked to", nil, tickRerun},
	{"ticks only go forward", nil, tickForward},
	{"closing twice", nil, closeTwice},
	{"a reservation keeps the job for its host", nil, reservationKeeps},
	{"a revoked run is waited out", nil, revoked},
}

var leaseCases = []testCase{
	{"refuses while held", nil, refusesHeld},
	{"the same holder gets the same grant", nil, sameHolderSameGrant},
	{"a renewal extends the lease", nil, renewalExtends},
	{"a lost reply of a renewal costs nothing", nil, lostRenewal},
	{"a lost reply of finish costs nothing", nil, lostFinish},
	{"a stale renewal touches nothing", nil, staleRenew},
	{"the token grows although the record was lost", hasDeleteRecord, tokenOutlivesRecord},
	{"a renewal restores a lost record", hasDeleteRecord, renewRestores},
	{"what ran while its record was lost does not run again", hasDeleteRecord, restoredRanOnce},
	{"finish after the lease vanished", hasDeleteLease, finishAfterVanish},
	{"abandon reopens an applied claim", nil, abandonApplied},
	{"abandon refuses a delayed claim", nil, abandonDelayed},
	{"a claim in flight is refused once it was taken back", comesBetween, claimInFlight},
	{"abandon reopens a vanished claim", hasDeleteLease, abandonVanished},
	{"names are never mixed up", nil, strangeNames},
	{"a cancelled context returns at once", nil, cancelledBefore},
	{"a context that ends in flight returns", hasStall, cancelledInFlight},
	{"a guarded counter loses no update", nil, guardedCounter},
	{"a once-key is granted once", nil, onceKey},
	{"agrees with the decision", nil, agreesWithDecision},
	{"finish wakes a waiter", nil, watchWakes},
	{"a watch ends with its context, and with its client", nil, watchEnds},
	{"inspect shows what is kept", nil, inspects},
	{"closing ends what is on its way", hasStall, closingEnds},
	{"no goroutine is left behind", nil, noLeaks},
	{"a restart keeps its promises", hasRestart, restarted},
	{"an emptied store waits", hasEmpty, emptied},
	{"an empty restart waits", hasRestartEmpty, restartedEmpty},
}

// Run runs the suite against a store: first the cases that wait, side by side, then the others one after another.
func Run(t *testing.T, h Harness) {
	for _, gap := range h.gaps() {
		t.Error(gap)
	}
	run := func(c testCase) {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != nil && !c.needs.in(h) {
				t.Skipf("not for this store: %s", h.Lacks[c.needs.name])
			}
			runCase(t, h, c)
		})
	}
	var waiting sync.WaitGroup
	for _, c := range waitingCases {
		waiting.Go(func() { run(c) })
	}
	waiting.Wait()
	for _, c := range alone() {
		run(c)
	}
}

func runCase(t *testing.T, h Harness, c testCase) {
	t.Helper()
	c.run(&scene{Steps: On(t), h: h, job: "job " + NewID()[:8], start: time.Now().Unix() - 7200})
}

// scene is one case at work, with a job name of its own.
type scene struct {
	Steps
	h     Harness
	job   string
	start int64 // where its ticks begin
	again int   // how often it has begun again
}

// open returns a client that is closed when the case ends.
func (s *scene) open() backends.Backend {
	s.Helper()
	d := s.h.Open(s.T)
	s.Cleanup(func() {
		if err := d.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	return d
}

// claim returns a claim of a new holder for the case's job, with a TTL that does not run out.
func (s *scene) claim() backends.Claim {
	return NewClaim(s.job, s.steadyTTL())
}

// brief returns a claim with the harness's TTL.
func (s *scene) brief() backends.Claim {
	c := s.claim()
	c.TTL = s.h.TTL
	return c
}

func (s *scene) steadyTTL() time.Duration {
	ttl := steady
	d := s.h.Open(s.T)
	if most := d.Limits().MaxTTL; most > 0 {
		ttl = min(ttl, most)
	}
	if err := d.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	return ttl
}

// tick returns the n-th tick after a start two hours ago.
func (s *scene) tick(n int64) int64 { return s.start + 10*n }

func withTick(c backends.Claim, tick int64) backends.Claim {
	c.Tick, c.OnLost, c.MaxAttempts = tick, backends.Skip, 3
	return c
}

func withRerun(c backends.Claim, tick int64) backends.Claim {
	c = withTick(c, tick)
	c.OnLost = backends.Rerun
	return c
}

// ask makes one claim after another as the runner does: it waits where a store says that it must wait, keeps
// its evidence, and asks again where the outcome is unknown. What it returns is a grant or a refusal.
func (s *scene) ask(d backends.Backend, c backends.Claim) (backends.Grant, *backends.Refusal) {
	s.Helper()
	var first time.Time // when Seen was seen first
	for end := time.Now().Add(patience + s.h.Settle); ; {
		if c.Seen.Token != 0 {
			c.Seen.For = time.Since(first)
		}
		g, err := d.Acquire(s.Context(), c)
		received := time.Now()
		if err == nil {
			return g, nil
		}
		refusal, refused := errors.AsType[*backends.Refusal](err)
		wait := 50 * time.Millisecond
		if refused {
			if refusal.Verdict != backends.Vanished && refusal.Verdict != backends.Quarantined {
				return backends.Grant{}, refusal
			}
			if seen := refusal.Seen; seen.Token != c.Seen.Token || seen.Beat != c.Seen.Beat {
				c.Seen, first = seen, received
			}
			wait = min(max(refusal.Wait, time.Millisecond), time.Second)
		} else if permanent, ok := errors.AsType[*backends.PermanentError](err); ok {
			s.Fatalf("Acquire: %v (%s)", permanent, permanent.Hint)
		}
		if time.Now().After(end) {
			s.Fatalf("Acquire: still %v after %v", err, patience+s.h.Settle)
		}
		time.Sleep(wait)
	}
}

// granted returns the grant of a claim that must be granted, now or after a wait that the store asks for.
func (s *scene) granted(d backends.Backend, c backends.Claim) backends.Grant {
	s.Helper()
	g, refusal := s.ask(d, c)
	if refusal != nil {
		s.Fatalf("Acquire: refused: %+v", *refusal)
	}
	if g.Token <= 0 || g.TTL < c.TTL || g.Claim.Job != c.Job || g.Claim.Holder != c.Holder {
		s.Fatalf("Acquire: %+v for %+v", g, c)
	}
	return g
}

// settled makes a claim until the job is not held.
func (s *scene) settled(d backends.Backend, c backends.Claim) (backends.Grant, *backends.Refusal) {
	s.Helper()
	// Many cases wait like this side by side, and each question is work for this machine.
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		g, refusal := s.ask(d, c)
		if refusal == nil || refusal.Verdict != backends.Held {
			return g, refusal
		}
		if time.Now().After(end) {
			s.Fatalf("Acquire: still held after %v: %+v", patience, *refusal)
		}
	}
}

// after returns the grant of a claim that is granted as soon as somebody's lease is over.
func (s *scene) after(d backends.Backend, c backends.Claim) backends.Grant {
	s.Helper()
	g, refusal := s.settled(d, c)
	if refusal != nil {
		s.Fatalf("Acquire: refused: %+v", *refusal)
	}
	return g
}

// refusal returns the refusal of a claim that must be refused with the verdict.
func (s *scene) refusal(d backends.Backend, c backends.Claim, want backends.Verdict) backends.Refusal {
	s.Helper()
	g, refusal := s.ask(d, c)
	if refusal == nil {
		s.Fatalf("Acquire: granted with token %d, want %s", g.Token, want)
	}
	if refusal.Verdict != want {
		s.Fatalf("Acquire: %+v, want %s", *refusal, want)
	}
	return *refusal
}

func (s *scene) abandon(d backends.Backend, c backends.Claim) {
	s.Helper()
	if err := d.Abandon(s.Context(), c); err != nil {
		s.Fatalf("Abandon: %v", err)
	}
}

// tooLate makes a step of a lease that is not the holder's any more. A store may close the connection of a lease as it
// takes that away: then nothing is known, and whoever asks again is told.
func (s *scene) tooLate(what string, step func() error) {
	s.Helper()
	err := step()
	for end := time.Now().Add(patience); err != nil && !backends.IsAnswer(err) && time.Now().Before(end); {
		err = step()
	}
	if !errors.Is(err, backends.ErrLost) {
		s.Errorf("%s: %v, want ErrLost", what, err)
	}
}

// expire ends a grant's lease as if its holder had died, and says whether that took the time of its TTL.
func (s *scene) expire(g backends.Grant) (waits bool) {
	s.Helper()
	if s.h.Expire == nil {
		return true
	}
	s.h.Expire(s.T, g)
	return false
}

func (s *scene) inspect(d backends.Backend, job string) backends.Status {
	s.Helper()
	status, err := d.Inspect(s.Context(), job)
	if err != nil {
		s.Fatalf("Inspect: %v", err)
	}
	return status
}

// snapshot is what must not change when something touches nothing.
func (s *scene) snapshot(d backends.Backend) string {
	s.Helper()
	status := s.inspect(d, s.job)
	return s.text(status.Record) + "\n" + leaseText(status.Lease)
}

func (s *scene) text(v any) string {
	s.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

func leaseText(l *backends.Lease) string {
	if l == nil {
		return "no lease"
	}
	return fmt.Sprintf("lease of %s, token %d", l.Holder, l.Token)
}

// untouched runs something that must leave record and lease alone, byte for byte.
func (s *scene) untouched(d backends.Backend, what string, f func()) {
	s.Helper()
	before, left := s.snapshot(d), s.left(d)
	looked := time.Now()
	f()
	if diff := cmp.Diff(before, s.snapshot(d)); diff != "" {
		s.Errorf("%s changed what the store keeps (-before +after):\n%s", what, diff)
	}
	if now := s.left(d); now > left && time.Since(looked) < left { // else it has run out: what a lock says then begins anew
		s.Errorf("%s extended the lease: %v left before, %v after", what, left, now)
	}
}

func (s *scene) left(d backends.Backend) time.Duration {
	s.Helper()
	if l := s.inspect(d, s.job).Lease; l != nil {
		return l.Left
	}
	return 0
}

// returns fails the case if f is still at work after a time that no busy machine needs.
func (s *scene) returns(what string, f func()) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		s.Fatalf("%s has not returned for %v", what, patience)
	}
}

// lossy is a client whose replies are lost: what it asks for is done, and its caller never hears of it.
type lossy struct{ backends.Backend }

func (l lossy) Acquire(ctx context.Context, c backends.Claim) (backends.Grant, error) {
	if _, err := l.Backend.Acquire(ctx, c); err != nil {
		return backends.Grant{}, err
	}
	return backends.Grant{}, context.DeadlineExceeded
}

func (l lossy) Renew(ctx context.Context, g backends.Grant) (backends.RenewAnswer, error) {
	if _, err := l.Backend.Renew(ctx, g); err != nil {
		return backends.RenewAnswer{}, err
	}
	return backends.RenewAnswer{}, context.DeadlineExceeded
}

func (l lossy) Finish(ctx context.Context, g backends.Grant, o backends.Outcome) error {
	if err := l.Backend.Finish(ctx, g, o); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

func (l lossy) Abandon(ctx context.Context, c backends.Claim) error {
	if err := l.Backend.Abandon(ctx, c); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// loses makes a lossy call, which must be applied and must not say so.
func (s *scene) loses(what string, err error) {
	s.Helper()
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Fatalf("%s: %v", what, err)
	}
}
