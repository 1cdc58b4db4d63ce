package backends_test

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

const hold = 5 * time.Minute

// keeping returns a claim that keeps the job for its host.
func keeping(id string) backends.Claim {
	c := by(id)
	c.MinHold = hold
	return c
}

// from moves a claim to another host.
func from(host string, c backends.Claim) backends.Claim {
	c.Holder.Host = host
	return c
}

// refused makes a claim that must be refused.
func refused(t *testing.T, s *store, c backends.Claim, want backends.Verdict) backends.Refusal {
	t.Helper()
	d := s.acquire(c)
	if d.Refusal == nil || d.Refusal.Verdict != want {
		t.Fatalf("claim of %s: %+v, want %s", c.Holder.ID, d.Refusal, want)
	}
	return *d.Refusal
}

// A job is kept from the start of the run on, however that ended, for its host and for nobody else.
func TestReservation(t *testing.T) {
	s := newStore()
	g := grant(t, s, keeping("a"))
	s.sleep(time.Second)
	s.finish(g, backends.Failed)
	s.sleep(time.Minute)
	r := refused(t, s, by("b"), backends.Reserved)
	if want := hold - time.Minute - time.Second; r.Wait != want || r.Holder.ID != "a" || r.Token != g.Token {
		t.Errorf("%+v, want to wait %v for a", r, want)
	}
	again := grant(t, s, from("host a", keeping("c"))) // from whose start it counts anew
	s.finish(again, backends.Done)
	s.sleep(hold - time.Millisecond)
	refused(t, s, by("b"), backends.Reserved)
	s.sleep(time.Millisecond)
	s.finish(grant(t, s, by("b")), backends.Done)
	grant(t, s, by("d")) // b asked for none
}

// A run that is longer than its reservation leaves nothing behind, and one that asks for none ends that of the one before.
func TestReservationEndsWithALongRun(t *testing.T) {
	s := newStore()
	g := grant(t, s, keeping("a"))
	for range 60 {
		s.sleep(ttl / 3)
		s.renew(g)
	}
	s.finish(g, backends.Done)
	s.finish(grant(t, s, by("b")), backends.Done)

	s.finish(grant(t, s, keeping("c")), backends.Done)
	s.finish(grant(t, s, from("host c", by("e"))), backends.Done)
	grant(t, s, by("d"))
}

// Whoever may be alive comes first: a reservation says nothing about a run.
func TestReservationComesAfterTheRulesOfLife(t *testing.T) {
	s := newStore()
	grant(t, s, keeping("a"))
	refused(t, s, by("b"), backends.Held)
	s.vanish()
	refused(t, s, by("b"), backends.Vanished)
	refused(t, s, from("host a", by("c")), backends.Vanished)
	s.sleep(ttl)
	refused(t, s, by("b"), backends.Reserved)
	grant(t, s, from("host a", by("c")))
}

// A clock that was ahead when it was made, or has gone back, does not keep a job for ever.
func TestReservationOfAWrongClock(t *testing.T) {
	s := newStore()
	s.finish(grant(t, s, keeping("a")), backends.Done)
	s.sleep(-24 * time.Hour)
	if r := refused(t, s, by("b"), backends.Reserved); r.Wait != hold {
		t.Errorf("it is kept for %v", r.Wait)
	}
	s.sleep(hold)
	grant(t, s, by("b"))
}

// A claim that came to nothing keeps nothing.
func TestReservationOfARunThatNeverStarted(t *testing.T) {
	s := newStore()
	c := keeping("a")
	grant(t, s, c)
	s.abandon(c)
	grant(t, s, by("b"))
}

// A record that was lost is written anew with its reservation.
func TestReservationOutlivesTheRecord(t *testing.T) {
	s := newStore()
	g := grant(t, s, keeping("a"))
	s.record = backends.Record{}
	s.renew(g)
	s.finish(g, backends.Done)
	refused(t, s, by("b"), backends.Reserved)
}

// Instants at which the job was kept did not pass unclaimed: whoever came was refused.
func TestReservationIsNoProofThatAScheduleIsOutOfUse(t *testing.T) {
	s := newStore()
	for n, plan := range []string{"A", "B"} {
		s.sleep(time.Minute)
		s.finish(grant(t, s, on(forTick(plan, int64(n)), plan)), backends.Done)
	}
	c := keeping("a")
	c.MinHold = time.Hour
	s.finish(grant(t, s, c), backends.Done)
	refused(t, s, on(forTick("c", 2), "B"), backends.Reserved)
	if s.record.Passed != tick(2) {
		t.Errorf("the tick that was refused is not noted: %d", s.record.Passed)
	}
	proving := func(n int64) backends.Claim {
		old := on(forTick("d", n+2), "A")
		old.Unclaimed = backends.Unclaimed{Fingerprint: "B", Instant: tick(n)}
		return old
	}
	s.sleep(time.Hour)
	r := refused(t, s, proving(30), backends.Outdated)
	if want := s.record.Reserved.Until; r.Lease.UnixMilli() != want {
		t.Errorf("until %d nobody could claim it, not until %v", want, r.Lease)
	}
	s.sleep(time.Hour)
	grant(t, s, proving(90))
}

// An operator who answers for the death of a host, or takes its lease away, does not want it to have the job.
func TestOrdersEndAReservation(t *testing.T) {
	for _, kind := range []backends.OrderKind{backends.ForceRelease, backends.Revoke} {
		s := newStore()
		g := grant(t, s, keeping("a"))
		s.sleep(time.Second)
		d := backends.DecideOrder(s.view(), against(kind, g.Token))
		if d.Err != nil {
			t.Fatal(kind, d.Err)
		}
		s.record, s.holder = d.Record, ""
		s.sleep(ttl)
		grant(t, s, by("b"))
	}
}

// So it does where nothing runs. What ended well stays so.
func TestADeadHostKeepsNothing(t *testing.T) {
	s := newStore()
	g := grant(t, s, keeping("a"))
	s.finish(g, backends.Done)
	for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke} {
		if d := backends.DecideOrder(s.view(), against(kind, g.Token)); d.Err == nil {
			t.Errorf("%s: nothing runs", kind)
		}
	}
	d := backends.DecideOrder(s.view(), against(backends.ForceRelease, g.Token))
	if d.Err != nil || !d.Changed || d.Record.Runs[0].State != backends.Done {
		t.Fatalf("%+v", d)
	}
	s.record = d.Record
	if d := backends.DecideOrder(s.view(), against(backends.ForceRelease, g.Token)); d.Err == nil {
		t.Error("there is no reservation any more")
	}
	grant(t, s, by("b"))
}
