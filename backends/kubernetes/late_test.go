package kubernetes

import (
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// renewsLate sends a renewal and returns when it is applied, and when it was sent. Its reply comes when it is asked for.
func (w *world) renewsLate(d *driver, g backends.Grant) (sent time.Time, reply func() error) {
	w.Helper()
	b := &between{client: d.client}
	applied, comes, answered := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	b.before = func() { sent = time.Now() }
	b.after = func() error {
		d.client = b.client
		close(applied)
		select {
		case <-comes:
		case <-w.Context().Done(): // the test has failed meanwhile
		}
		return nil
	}
	d.client = b
	go func() { _, err := d.Renew(w.Context(), g); answered <- err }()
	select {
	case <-applied:
	case err := <-answered:
		w.Fatalf("the renewal was not applied: %v", err)
	}
	return sent, func() error { close(comes); return <-answered }
}

// lateReply: a renewal is applied, and its reply is late (k/k#23731, #44887, #65094: client-go counts its lease from the
// reply). What is written counts from the request. The renewal beside it finds a version that it has not seen, which is
// our own; and the late reply takes nothing back of what the store has said since.
func lateReply(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	beat := w.record("job").Beat
	c := &counted{client: w.d.client}
	w.d.client = c
	sent, reply := w.renewsLate(w.d, g)
	r := w.record("job")
	if r.Beat <= beat {
		w.Fatalf("the renewal is not applied: beat %d after %d", r.Beat, beat)
	}
	if renewed := time.UnixMilli(r.Until - r.TTL); renewed.After(sent) || w.lease("job").Spec.RenewTime.After(sent) {
		w.Errorf("renewed at %v by a request of %v", renewed, sent)
	}
	renews := func(what string, want int32) {
		w.Helper()
		before := c.calls.Load()
		w.Renew(w.d, g)
		if n := c.calls.Load() - before; n != want {
			w.Errorf("%s: %d round trips, want %d", what, n, want)
		}
	}
	renews("a renewal beside the one that is late", 3)
	if err := reply(); err != nil {
		w.Errorf("the reply that was late: %v", err)
	}
	renews("a renewal after the late reply", 1)
	w.Finish(w.d, g)
	if r := w.record("job"); len(r.Runs) != 1 || r.Token != g.Token || !r.Free() {
		w.Errorf("%+v", r)
	}
}

// releaseBesideRenewal: a renewal is applied and its reply is late, when the run ends. The release finds a version that
// it has not seen, which is our own, and is not lost (client-go 1b1630d). The late reply takes no lease back.
func releaseBesideRenewal(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	_, reply := w.renewsLate(w.d, g)
	w.Finish(w.d, g)
	if err := reply(); err != nil {
		w.Errorf("the reply that was late: %v", err)
	}
	w.Lost(w.d, g)
	w.Finish(w.other, w.Acquire(w.other, newClaim("job")))
}
