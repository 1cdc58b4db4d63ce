package history

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/boottime"
)

// A checker that finds nothing may be one that cannot find anything: here it gets histories that no lease can have.

const leaseTime = time.Second

// at is an operation from one instant to another, in milliseconds.
func at(call, end int64, q request, r reply) porcupine.Operation {
	ms := boottime.Instant(time.Millisecond)
	q.call, r.at = boottime.Instant(call)*ms, boottime.Instant(end)*ms
	return porcupine.Operation{Input: q, Output: r, Call: int64(q.call), Return: int64(r.at)}
}

func claimOf(holder int) request { return request{step: claims, holder: holder, ttl: leaseTime} }

func tickOf(holder int, tick int64, p backends.Policy) request {
	q := claimOf(holder)
	q.tick, q.policy, q.most = tick, p, 2
	return q
}

func part(n int, q request) request {
	q.parts = n
	return q
}

func divided(n int) reply { return reply{verdict: backends.Divided, token: 5, parts: n} }

func of(s step, holder int, token int64) request {
	return request{step: s, holder: holder, token: token, ttl: leaseTime, outcome: backends.Done}
}

func grants(token int64) reply {
	return reply{verdict: backends.Granted, token: token, ttl: leaseTime, attempt: 1}
}

func grantsTick(token, tick int64, attempt int) reply {
	r := grants(token)
	r.tick, r.attempt = tick, attempt
	return r
}

func says(v backends.Verdict, token int64) reply { return reply{verdict: v, token: token} }

func heldBy(holder int, token int64) reply {
	return reply{verdict: backends.Held, token: token, holder: holder}
}

// TestModel: each history that must not be has a twin beside it that may.
func TestModel(t *testing.T) {
	t.Parallel()
	granted := at(0, 10, claimOf(1), grants(5))
	renewed := at(500, 510, of(renews, 1, 5), says(ok, 0))
	finished := at(600, 610, of(finishes, 1, 5), says(ok, 0))
	tick := at(0, 10, tickOf(1, 70, backends.Skip), grantsTick(5, 70, 1))
	rerun := at(0, 10, tickOf(1, 70, backends.Rerun), grantsTick(5, 70, 1))
	four := at(0, 10, part(4, tickOf(1, 70, backends.Rerun)), grantsTick(5, 70, 1))
	unsure := func(call int64, q request) request {
		q.call = boottime.Instant(call * int64(time.Millisecond))
		return q
	}
	lasting := func(q request) request { q.ttl = 0; return q }
	forLife := func(token int64) reply { r := grants(token); r.ttl = 0; return r }
	lock := at(0, 10, lasting(claimOf(1)), forLife(5))
	after := at(1100, 1110, lasting(claimOf(2)), forLife(6))
	lockTick := at(0, 10, lasting(tickOf(1, 70, backends.Skip)), func() reply { r := grantsTick(5, 70, 1); r.ttl = 0; return r }())
	lockLost := at(1100, 1110, lasting(tickOf(2, 70, backends.Skip)), says(backends.IsLost, 5))
	lockRenewed := at(700, 710, lasting(of(renews, 1, 5)), says(ok, 0))
	type history []porcupine.Operation
	for _, c := range []struct {
		name    string
		history history
		unsure  []request
		may     bool
	}{
		{"a grant after the end of a run", history{granted, finished, at(620, 630, claimOf(2), grants(6))}, nil, true},
		{"a grant inside a lease", history{granted, renewed, at(1200, 1210, claimOf(2), grants(6))}, nil, false},
		{"a grant after a TTL", history{granted, renewed, at(1200, 1500, claimOf(2), grants(6))}, nil, true},
		{"a grant after an end that may have come", history{granted, at(620, 630, claimOf(2), grants(6))}, []request{unsure(600, of(finishes, 1, 5))}, true},
		{"a grant before an end that may have come", history{granted, at(620, 630, claimOf(2), grants(6))}, []request{unsure(640, of(finishes, 1, 5))}, false},
		{"a grant inside the lease of one that nobody was told", history{granted, finished, at(650, 660, claimOf(3), heldBy(2, 8)), at(700, 710, claimOf(3), grants(9))}, []request{unsure(620, claimOf(2))}, false},
		{"a holder out of nothing", history{granted, finished, at(700, 710, claimOf(3), heldBy(2, 8))}, nil, false},
		{"a token that does not grow", history{granted, finished, at(620, 630, claimOf(2), grants(5))}, nil, false},
		{"a repeated claim gets its token", history{granted, at(20, 30, claimOf(1), grants(5))}, nil, true},
		{"a repeated claim gets another token", history{granted, at(20, 30, claimOf(1), grants(6))}, nil, false},
		{"a renewal that has lost", history{granted, at(1100, 1110, claimOf(2), grants(6)), at(1120, 1130, of(renews, 1, 5), says(gone, 0))}, nil, true},
		{"a renewal for a superseded token", history{granted, at(1100, 1110, claimOf(2), grants(6)), at(1120, 1130, of(renews, 1, 5), says(ok, 0))}, nil, false},
		{"a renewal after the end", history{granted, finished, at(620, 630, of(renews, 1, 5), says(ok, 0))}, nil, false},
		{"a renewal after somebody saw the lease gone", history{granted, at(1100, 1110, claimOf(2), says(backends.Vanished, 5)), at(1120, 1130, of(renews, 1, 5), says(ok, 0))}, nil, false},
		{"an end that is reported again", history{granted, finished, at(620, 630, claimOf(2), grants(6)), at(640, 650, of(finishes, 1, 5), says(ok, 0))}, nil, true},
		{"a claim that was taken back is refused", history{at(0, 10, request{step: abandons, holder: 1}, says(ok, 0)), at(20, 30, claimOf(1), says(backends.Abandoned, 0))}, nil, true},
		{"a claim that was taken back is granted", history{at(0, 10, request{step: abandons, holder: 1}, says(ok, 0)), at(20, 30, claimOf(1), grants(5))}, nil, false},
		{"held after the end", history{granted, finished, at(620, 630, claimOf(2), heldBy(1, 5))}, nil, false},
		{"an older token is told", history{granted, finished, at(620, 630, claimOf(2), grants(6)), at(640, 650, claimOf(3), heldBy(2, 5))}, nil, false},

		{"a grant beside a lock", history{lock, after}, nil, false},
		{"a grant after the death of who had a lock", history{lock, at(600, 610, lasting(of(dies, 1, 5)), says(ok, 0)), after}, nil, true},
		{"a lock that lapses after its end was asked for", history{lockTick, lockRenewed, lockLost}, []request{unsure(600, lasting(of(finishes, 1, 5)))}, true},
		{"a lock that lapses while its run may be alive", history{lockTick, lockRenewed, lockLost}, nil, false},
		{"a lock that lapses before its end is asked for", history{lock, after}, []request{unsure(1200, lasting(of(finishes, 1, 5)))}, false},
		{"a lock that lapses, of which its holder was told", history{lock, after}, []request{unsure(600, lasting(claimOf(1)))}, false},

		{"the next tick", history{tick, finished, at(620, 630, tickOf(2, 80, backends.Skip), grantsTick(6, 80, 1))}, nil, true},
		{"a tick that is done", history{tick, finished, at(620, 630, tickOf(2, 70, backends.Rerun), grantsTick(6, 70, 2))}, nil, false},
		{"a tick whose holder vanished", history{tick, at(1100, 1110, tickOf(2, 70, backends.Rerun), grantsTick(6, 70, 2))}, nil, false},
		{"a tick whose holder vanished, under rerun", history{rerun, at(1100, 1110, tickOf(2, 70, backends.Rerun), grantsTick(6, 70, 2))}, nil, true},
		{"a lost tick to who claimed it, after somebody found it lost", history{tick, at(1100, 1110, tickOf(1, 70, backends.Skip), says(backends.IsLost, 5))}, []request{unsure(1050, tickOf(2, 70, backends.Skip))}, true},
		{"one attempt too many", history{rerun, at(1100, 1110, tickOf(2, 70, backends.Rerun), grantsTick(6, 70, 2)), at(2200, 2210, tickOf(3, 70, backends.Rerun), grantsTick(7, 70, 3))}, nil, false},
		{"a tick that was never started", history{tick, at(20, 30, request{step: abandons, holder: 1}, says(ok, 0)), at(40, 50, tickOf(2, 70, backends.Skip), grantsTick(6, 70, 1))}, nil, true},
		{"a shard again, of as many", history{four, at(1100, 1110, part(4, tickOf(2, 70, backends.Rerun)), grantsTick(6, 70, 2))}, nil, true},
		{"a shard again, of another number", history{four, at(1100, 1110, part(3, tickOf(2, 70, backends.Rerun)), grantsTick(6, 70, 2))}, nil, false},
		{"a shard of another number, refused", history{four, at(1100, 1110, part(3, tickOf(2, 70, backends.Rerun)), divided(4))}, nil, true},
		{"a shard of as many, refused as another number", history{four, finished, at(620, 630, part(4, tickOf(2, 70, backends.Rerun)), divided(4))}, nil, false},
		{"the next tick, of another number", history{four, finished, at(620, 630, part(3, tickOf(2, 80, backends.Rerun)), grantsTick(6, 80, 1))}, nil, true},
		{"a later tick of another number, before the one that is to be run again", history{four, at(1100, 1110, part(3, tickOf(2, 80, backends.Rerun)), grantsTick(6, 70, 2))}, nil, false},
		{"a later tick before the one that is to be run again", history{rerun, at(1100, 1110, tickOf(2, 80, backends.Rerun), grantsTick(6, 80, 1))}, nil, false},
	} {
		want := porcupine.Illegal
		if c.may {
			want = porcupine.Ok
		}
		if got := porcupine.CheckOperationsTimeout(newModel(c.unsure, false), c.history, patience); got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
}

// TestModelOfWhatLasts: a lease that is there until somebody takes it may be renewed after others have found it silent for too
// long, and not after it was taken; what was renewed then counts as ever.
func TestModelOfWhatLasts(t *testing.T) {
	t.Parallel()
	silent := []porcupine.Operation{at(0, 10, claimOf(1), grants(5)), at(1100, 1110, claimOf(2), says(backends.Vanished, 5))}
	renewed := at(1120, 1130, of(renews, 1, 5), says(ok, 0))
	for _, c := range []struct {
		name string
		then []porcupine.Operation
		may  bool
	}{
		{"a renewal", []porcupine.Operation{renewed, at(1140, 1150, claimOf(2), heldBy(1, 5))}, true},
		{"a renewal after somebody else was granted", []porcupine.Operation{at(1112, 1115, claimOf(3), grants(6)), renewed}, false},
		{"a grant inside what was renewed", []porcupine.Operation{renewed, at(1900, 1910, claimOf(3), grants(6))}, false},
		{"a grant after it", []porcupine.Operation{renewed, at(2200, 2210, claimOf(3), grants(6))}, true},
	} {
		want := porcupine.Illegal
		if c.may {
			want = porcupine.Ok
		}
		if got := porcupine.CheckOperationsTimeout(newModel(nil, true), slices.Concat(silent, c.then), patience); got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
}
