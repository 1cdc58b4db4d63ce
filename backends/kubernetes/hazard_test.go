package kubernetes

import (
	"errors"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// lateRenewalOfDeleted: a renewal is on its way while an operator deletes the Lease. Kubernetes would make the Lease
// anew of an update that finds none, and a run that everybody thinks gone would have it again.
func lateRenewalOfDeleted(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	b := &between{client: w.d.client, before: func() { w.server.API(w, "DELETE", w.path("job"), "") }}
	w.d.client = b
	_, err := w.d.Renew(w.Context(), g)
	w.WantLost("Renew", err)
	if s, err := w.operator.read(w.Context(), "job"); err != nil || s.lease != nil {
		w.Errorf("the Lease is there again: %+v, %v", s, err)
	}
}

// doubled: something on the way sends a request twice, and what is answered is the second one. It finds what the first
// has left: it is one grant, one renewal, one end.
func doubled(w *world) {
	w.doubles(w.d)
	g := w.Acquire(w.d, newClaim("job"))
	w.doubles(w.d)
	w.Renew(w.d, g)
	w.doubles(w.d)
	w.Finish(w.d, g)
	if r := w.record("job"); len(r.Runs) != 1 || r.Token != g.Token || !r.Free() {
		w.Errorf("%+v", r)
	}
}

func holderChanged(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	w.patch("job", `{"spec":{"holderIdentity":"somebody"}}`)
	_, err := w.d.Renew(w.Context(), g)
	w.WantLost("Renew", err)
	w.Refused(w.other, newClaim("job"), backends.Vanished)
	w.Finish(w.d, g) // it has stopped, and says so
	w.Finish(w.other, w.Acquire(w.other, newClaim("job")))
}

// leaseDeleted: with the Lease every trace of the run is gone. Its holder ends it; that nobody is granted before then
// nothing here can promise.
func leaseDeleted(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	w.server.API(w, "DELETE", w.path("job"), "")
	_, err := w.d.Renew(w.Context(), g)
	w.WantLost("Renew", err)
	w.WantLost("Finish", w.d.Finish(w.Context(), g, backends.Outcome{State: backends.Done}))
	next := w.Acquire(w.other, newClaim("job"))
	if next.Token <= g.Token {
		w.Errorf("token %d after %d", next.Token, g.Token)
	}
	w.Finish(w.other, next)
}

// annotated: an update of somebody else's is taken for a beat. It delays, and costs the holder nothing.
func annotated(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	c := newClaim("job")
	c.Seen = w.Refused(w.other, c, backends.Held).Seen
	c.Seen.For = time.Hour
	w.patch("job", `{"metadata":{"annotations":{"example.com/note":"mine"}}}`)
	w.Refused(w.other, c, backends.Held)
	w.Renew(w.d, g)
	if l := w.lease("job"); l.Annotations["example.com/note"] != "mine" {
		w.Errorf("the annotation is gone: %v", l.Annotations)
	}
	w.Finish(w.d, g)
}

// foreignLease: a Lease of another program is never taken, however long nobody has renewed it.
func foreignLease(w *world) {
	name := w.d.cfg.leaseName("job")
	w.server.API(w, "POST", w.server.Leases(w.namespace), `{"metadata":{"name":"`+name+`"},"spec":{"holderIdentity":"","leaseDurationSeconds":1}}`)
	before := w.lease("job")
	c := newClaim("job")
	_, err := w.d.Acquire(w.Context(), c)
	w.permanent("Acquire", err, backends.Configuration, name)
	w.permanent("Abandon", w.d.Abandon(w.Context(), c), backends.Configuration, name)
	_, err = w.d.Inspect(w.Context(), "job")
	w.permanent("Inspect", err, backends.Configuration, name)
	w.permanent("Order", w.d.Order(w.Context(), backends.Order{Job: "job", Kind: backends.ForgetJob, By: c.Holder}), backends.Configuration, name)
	if after := w.lease("job"); after.ResourceVersion != before.ResourceVersion {
		w.Error("it was written to")
	}
}

// permanent checks an error and that it names something.
func (w *world) permanent(what string, err error, kind backends.PermanentKind, names string) {
	w.Helper()
	p, ok := errors.AsType[*backends.PermanentError](err)
	if !ok || p.Kind != kind || !strings.Contains(p.Error()+p.Hint, names) {
		w.Errorf("%s: %v, want a permanent error of kind %d that names %s", what, err, kind, names)
	}
}

// otherPrefix: two prefixes lead to one name. The second one is refused, and neither lists the other's job.
func otherPrefix(w *world) {
	url := urlOf(w.namespace, w.server.Kubeconfig(w, account(w.namespace)))
	a, b := open(w, url+"&prefix=a-b"), open(w, url+"&prefix=a")
	g := w.Acquire(a, newClaim("c"))
	_, err := b.Acquire(w.Context(), newClaim("b-c"))
	w.permanent("Acquire", err, backends.Configuration, "a-b-c")
	w.Finish(a, g)
	if jobs, err := b.Jobs(w.Context()); err != nil || len(jobs) != 0 {
		w.Errorf("jobs %q, %v", jobs, err)
	}
}

func brokenRecord(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	w.Finish(w.other, w.Acquire(w.other, newClaim("good")))
	w.patch("job", `{"metadata":{"annotations":{"leaderrun/record":"null"}}}`)
	_, err := w.other.Acquire(w.Context(), newClaim("job"))
	w.permanent("Acquire", err, backends.Configuration, w.d.cfg.leaseName("job"))
	_, err = w.d.Renew(w.Context(), g)
	w.permanent("Renew", err, backends.Configuration, w.d.cfg.leaseName("job"))
	jobs, err := w.d.Jobs(w.Context())
	w.permanent("Jobs", err, backends.Configuration, w.d.cfg.leaseName("job"))
	if len(jobs) != 1 || jobs[0] != "good" {
		w.Errorf("jobs %q", jobs)
	}
}

// notesAreNoBeats: claims that are refused, taken back or asked for by an operator write to the Lease while others wait
// for a holder that is dead. They must not keep each other waiting.
func notesAreNoBeats(w *world) {
	if err := w.d.Abandon(w.Context(), newClaim("never")); err != nil {
		w.Fatal(err)
	}
	if r := w.record("never"); r.Beat != 0 {
		w.Errorf("beat %d of a job that nobody has run", r.Beat)
	}
	g := w.Acquire(w.d, newClaim("job"))
	beat := w.record("job").Beat
	still := func(what string) {
		w.Helper()
		if r := w.record("job"); r.Beat != beat {
			w.Errorf("%s is a beat: %d, want %d", what, r.Beat, beat)
		}
	}
	c := newClaim("job")
	c.Tick, c.OnLost, c.MaxAttempts = time.Now().Unix()-3600, backends.Skip, 1
	if seen := w.Refused(w.other, c, backends.Held).Seen; seen.Beat != beat {
		w.Errorf("seen %+v, want beat %d", seen, beat)
	}
	if passed := w.record("job").Passed; passed != c.Tick {
		w.Errorf("passed %d, want %d", passed, c.Tick)
	}
	still("a tick that passed")
	if err := w.other.Abandon(w.Context(), newClaim("job")); err != nil {
		w.Fatal(err)
	}
	still("a claim that was taken back")
	by := backends.Holder{ID: "operator", Host: "desk", User: "root"}
	if err := w.other.Order(w.Context(), backends.Order{Job: "job", Kind: backends.Stop, By: by, Token: g.Token}); err != nil {
		w.Fatal(err)
	}
	still("a request to stop")
	w.Renew(w.d, g)
	if r := w.record("job"); r.Beat <= beat {
		w.Errorf("a renewal is no beat: %d after %d", r.Beat, beat)
	}
	if err := w.other.Order(w.Context(), backends.Order{Job: "job", Kind: backends.Revoke, By: by, Token: g.Token}); err != nil {
		w.Fatal(err)
	}
	beat = w.record("job").Beat
	c = newClaim("job")
	c.Seen = backends.LastSeen{Token: g.Token, Beat: beat, For: time.Hour}
	w.Refused(w.other, c, backends.Vanished) // the tombstone's own silence counts
}

// noRights: a user without a role hears what is missing.
func noRights(w *world) {
	stranger := w.open(servers.KubernetesStranger)
	_, err := stranger.Acquire(w.Context(), newClaim("job"))
	w.permanent("Acquire", err, backends.Credentials, "a Role with get, list")
	ch, err := stranger.Watch(w.Context(), "job")
	if err != nil {
		w.Fatal(err)
	}
	select {
	case _, open := <-ch:
		if open {
			w.Error("news for a stranger")
		}
	case <-time.After(suite.Patience):
		w.Error("the watch of a stranger goes on")
	}
}

func noNamespace(w *world) {
	d := open(w, urlOf("nowhere", w.server.Kubeconfig(w, servers.KubernetesAdmin)))
	_, err := d.Acquire(w.Context(), newClaim("job"))
	w.permanent("Acquire", err, backends.Configuration, "kubectl create namespace nowhere")
}

// certificate: who is known by a client certificate is let in and told what is missing.
func certificate(w *world) {
	_, err := w.open(servers.KubernetesClient).Acquire(w.Context(), newClaim("job"))
	w.permanent("Acquire", err, backends.Credentials, "cannot get resource")
}
