package kubernetes

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

// othersStay: what others keep in a Lease survives our updates, also what we do not know.
func othersStay(w *world) {
	g := w.Acquire(w.d, newClaim("job"))
	w.patch("job", `{"metadata":{"labels":{"team":"a"},"annotations":{"note":"b"},"finalizers":["example.com/keep"]}}`)
	w.Renew(w.d, g)
	w.Finish(w.d, g)
	var kept struct {
		Metadata struct {
			Labels, Annotations map[string]string
			Finalizers          []string
		}
	}
	text := w.server.API(w, "GET", w.path("job"), "")
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		w.Fatal(err)
	}
	m := kept.Metadata
	if m.Labels["team"] != "a" || m.Labels[managerKey] != manager || m.Annotations["note"] != "b" || !slices.Equal(m.Finalizers, []string{"example.com/keep"}) {
		w.Errorf("kept: %s", text)
	}
	w.patch("job", `{"metadata":{"finalizers":null}}`)
}

// kubectlShows: people, by `kubectl get lease`, and other programs read the fields of a Lease as they are meant.
func kubectlShows(w *world) {
	c := newClaim("job")
	c.TTL = 2500 * time.Millisecond
	g := w.Acquire(w.d, c)
	holder := c.Holder.Host + "_" + c.Holder.ID
	first := w.lease("job").Spec
	if first.HolderIdentity != holder {
		w.Errorf("the holder is %q, want %q", first.HolderIdentity, holder)
	}
	w.Renew(w.d, g)
	l := w.lease("job")
	if l.Spec.LeaseDurationSeconds != 3 || l.Spec.LeaseTransitions != 0 || !l.Spec.AcquireTime.Equal(first.AcquireTime) || first.AcquireTime.IsZero() {
		w.Errorf("after a renewal: %+v, before: %+v", l.Spec, first)
	}
	if age := time.Since(l.Spec.RenewTime); age < 0 || age > time.Minute {
		w.Errorf("renewed %v ago", age)
	}
	w.Finish(w.d, g)
	if after := w.lease("job").Spec.HolderIdentity; after != "" {
		w.Errorf("the holder after the end is %q", after)
	}
	next := w.Acquire(w.other, newClaim("job"))
	if spec := w.lease("job").Spec; spec.LeaseTransitions != 1 || spec.AcquireTime.Before(first.AcquireTime) {
		w.Errorf("of the next holder: %+v", spec)
	}
	w.Finish(w.other, next)
}

// watchTells: what a standby and a holder hear.
func watchTells(w *world) {
	ch, err := w.other.Watch(w.Context(), "job")
	if err != nil {
		w.Fatal(err)
	}
	w.News("the watch stands", ch, suite.Looks)
	g := w.Acquire(w.d, newClaim("job"))
	w.Renew(w.d, g)
	beat := w.record("job").Beat
	w.News("a beat", ch, func(n backends.News) bool { return n.Seen.Token == g.Token && n.Seen.Beat == beat })
	by := backends.Holder{ID: "operator", Host: "desk", User: "root"}
	if err := w.other.Order(w.Context(), backends.Order{Job: "job", Kind: backends.Stop, By: by, Token: g.Token}); err != nil {
		w.Fatal(err)
	}
	w.News("a request to stop", ch, suite.Looks)
	w.patch("job", `{"spec":{"holderIdentity":null}}`)
	w.News("the holder is emptied", ch, suite.Looks)
	w.Finish(w.d, g)
	w.News("the end", ch, suite.Looks)
	w.server.API(w, "DELETE", w.path("job"), "")
	w.News("the Lease is deleted", ch, suite.Looks)
}

// listsJobs: all jobs of a prefix, whatever their names.
func listsJobs(w *world) {
	want := []string{"a", "b c", "B c", "ü", strings.Repeat("long", 100)}
	for _, job := range want {
		w.Finish(w.d, w.Acquire(w.d, newClaim(job)))
	}
	w.server.API(w, "POST", w.server.Leases(w.namespace), `{"metadata":{"name":"leaderrun-other"}}`)
	slices.Sort(want)
	if got, err := w.other.Jobs(w.Context()); err != nil || !slices.Equal(got, want) {
		w.Errorf("jobs %q, %v; want %q", got, err, want)
	}
}
