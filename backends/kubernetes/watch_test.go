package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// watchCut: the connection of a watch breaks, and what happens meanwhile goes unseen. When it stands again it says so,
// and shows the last beat.
func watchCut(w *world) {
	p := servers.NewProxy(w, w.server.Addr())
	d := open(w, urlOf(w.namespace, w.server.KubeconfigAt(w, account(w.namespace), p.Addr())))
	ch, err := d.Watch(w.Context(), "job")
	if err != nil {
		w.Fatal(err)
	}
	w.News("the watch stands", ch, suite.Looks)
	g := w.Acquire(w.d, newClaim("job"))
	w.News("a beat", ch, func(n backends.News) bool { return n.Seen.Token == g.Token })
	p.DropAll(true)
	w.Renew(w.d, g)
	beat := w.record("job").Beat
	p.DropAll(false)
	p.Cut()
	looked := false
	w.News("the watch stands again and shows the last beat", ch, func(n backends.News) bool {
		looked = looked || n.Look
		return looked && n.Seen == backends.LastSeen{Token: g.Token, Beat: beat}
	})
	w.Finish(w.d, g)
	w.News("the end", ch, suite.Looks)
}

// examines: what doctor says of a server that is as it should be, and of users who are not.
func examines(w *world) {
	want := []string{"cluster", checkup.Reachable, "version", checkup.Clock, checkup.Rights, "writes"}
	findings := w.d.Examine(w.Context(), 2*time.Second)
	for _, f := range findings {
		if f.Grade != backends.Fine && f.What != checkup.Clock && f.What != checkup.Reachable {
			w.Errorf("%+v", f)
		}
		want = slices.DeleteFunc(want, func(what string) bool { return what == f.What })
	}
	if len(want) > 0 {
		w.Errorf("not looked at: %q; findings %+v", want, findings)
	}
	if jobs, err := w.d.Jobs(w.Context()); err != nil || len(jobs) != 0 {
		w.Errorf("left behind: %q, %v", jobs, err)
	}
	worst := func(d *driver, what string) {
		w.Helper()
		if !slices.ContainsFunc(d.Examine(w.Context(), 2*time.Second), func(f backends.Finding) bool {
			return f.What == what && f.Grade == backends.Bad && f.Remedy != ""
		}) {
			w.Errorf("nothing Bad about %s: %+v", what, d.Examine(w.Context(), 2*time.Second))
		}
	}
	worst(w.open(servers.KubernetesStranger), checkup.Rights)
	worst(open(w, urlOf("nowhere", w.server.Kubeconfig(w, servers.KubernetesAdmin))), "writes")
	closed := servers.FreePort(w)
	worst(open(w, urlOf(w.namespace, w.server.KubeconfigAt(w, servers.KubernetesAdmin, fmt.Sprintf("127.0.0.1:%d", closed)))), checkup.Reachable)
	if !slices.ContainsFunc(w.d.Examine(w.Context(), 2500*time.Millisecond), func(f backends.Finding) bool {
		return f.What == "leases" && f.Grade == backends.Warning
	}) {
		w.Error("no warning about half seconds")
	}
}

func TestNews(t *testing.T) {
	t.Parallel()
	holder := backends.Holder{ID: "h", Host: "host-1"}
	at := func(beat, token, released int64, identity string, stop bool) *state {
		s := &state{lease: &api.Lease{Spec: api.Spec{HolderIdentity: identity}}}
		s.record = backends.Record{Beat: beat, Token: token, Released: released, Holder: holder}
		if stop {
			s.record.Break = &backends.BreakRequest{Token: token}
		}
		return s
	}
	const mine = "host-1_h"
	for name, c := range map[string]struct {
		last, now *state
		look      bool
	}{
		"held when the watch begins":      {nil, at(2, 1, 0, mine, false), false},
		"free when the watch begins":      {nil, at(2, 1, 1, "", false), true},
		"emptied when the watch begins":   {nil, at(2, 1, 0, "", false), true},
		"to stop when the watch begins":   {nil, at(2, 1, 0, mine, true), true},
		"a beat":                          {at(2, 1, 0, mine, false), at(3, 1, 0, mine, false), false},
		"released":                        {at(2, 1, 0, mine, false), at(3, 1, 1, "", false), true},
		"free as before":                  {at(2, 1, 1, "", false), at(3, 1, 1, "", false), false},
		"granted to the next":             {at(2, 1, 1, "", false), at(3, 2, 1, mine, false), false},
		"emptied":                         {at(2, 1, 0, mine, false), at(3, 1, 0, "", false), true},
		"emptied as before":               {at(2, 1, 0, "", false), at(3, 1, 0, "", false), false},
		"a tombstone after one":           {at(2, 1, 0, "", false), at(3, 2, 0, "", false), true},
		"asked to stop":                   {at(2, 1, 0, mine, false), at(3, 1, 0, mine, true), true},
		"asked to stop as before":         {at(2, 1, 0, mine, true), at(3, 1, 0, mine, true), false},
		"released, with the stop request": {at(2, 1, 0, mine, true), at(3, 1, 1, "", false), true},
	} {
		n := c.now.news(c.last)
		if n.Look != c.look || n.Seen != (backends.LastSeen{Token: c.now.record.Token, Beat: c.now.record.Beat}) {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// TestView: a lease that somebody else's claim sees. The clocks decide what it is told, and never that it is granted.
func TestView(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	holder := backends.Holder{ID: "h", Host: "host-1"}
	seen := func(beat int64, age time.Duration) backends.LastSeen {
		return backends.LastSeen{Token: 7, Beat: beat, For: age}
	}
	for name, c := range map[string]struct {
		renewed time.Duration // ago, by the clocks
		seen    backends.LastSeen
		want    backends.Verdict
	}{
		"fresh":                                 {time.Second, backends.LastSeen{}, backends.Held},
		"renewed long ago":                      {time.Hour, backends.LastSeen{}, backends.Vanished},
		"the holder's clock is ahead":           {-time.Hour, backends.LastSeen{}, backends.Vanished},
		"of another token":                      {time.Second, backends.LastSeen{Token: 6, Beat: 5, For: time.Hour}, backends.Held},
		"silent for a while":                    {time.Second, seen(5, time.Second), backends.Held},
		"silent for a TTL":                      {time.Second, seen(5, ttl), backends.Granted},
		"silent for a TTL, clock ahead":         {-time.Hour, seen(5, ttl), backends.Granted},
		"silent for nearly a TTL, long ago":     {time.Hour, seen(5, ttl-1), backends.Vanished},
		"silent for a TTL, long ago":            {time.Hour, seen(5, ttl), backends.Granted},
		"another beat, however long ago":        {time.Hour, seen(4, time.Hour), backends.Held},
		"another beat, and the clocks in step":  {time.Second, seen(4, time.Hour), backends.Held},
		"another beat that is older, as if put": {time.Hour, seen(6, time.Hour), backends.Held},
	} {
		s := &state{lease: &api.Lease{Spec: api.Spec{HolderIdentity: identity(holder)}}}
		s.record = backends.Record{Job: "job", Token: 7, Beat: 5, Holder: holder, TTL: ttl.Milliseconds()}
		s.record.Until = time.Now().Add(ttl - c.renewed).UnixMilli()
		claim := newClaim("job")
		claim.Seen = c.seen
		decision := backends.Decide(s.View(asks(claim.Holder.ID, claim.Seen)), claim)
		got := backends.Granted
		if decision.Refusal != nil {
			got = decision.Refusal.Verdict
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if mine := s.View(asks(holder.ID, backends.LastSeen{})); mine.Lease == nil {
			t.Errorf("%s: the holder itself has no lease", name)
		}
	}
}

// shown is a client that shows a Lease.
type shown struct {
	client
	lease *api.Lease
}

func (s *shown) Get(context.Context, string) (*api.Lease, error) { return s.lease.Clone(), nil }
func (s *shown) Close() error                                    { return nil }

// TestHolderWithAnotherClock: a holder's clock is wrong by an hour. A candidate that has seen one of its beats come is told
// Held from then on, by whatever it knows of the last one: where it waits for a silence that does not come, the end of
// its wait is never reached. When the holder is silent for a TTL, it is the candidate's.
func TestHolderWithAnotherClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := driverOf(nil)
		first := newClaim("job")
		first.TTL = 30 * time.Second
		s := &shown{}
		d.client = s
		r := backends.Decide(new(state).View(asks(first.Holder.ID, first.Seen)), first).Record
		r.Until -= time.Hour.Milliseconds()
		beat := func(version string) {
			s.lease = new(state).changed(d.cfg, "job", alive(r))
			s.lease.UID, s.lease.ResourceVersion = "u", version
		}
		c := newClaim("job")
		told := func(what string, want backends.Verdict) {
			t.Helper()
			var got backends.Verdict
			if refusal, ok := errors.AsType[*backends.Refusal](lookAs(t, d, c)); ok {
				got, c.Seen = refusal.Verdict, refusal.Seen
			}
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		beat("7")
		told("the first look", backends.Vanished)
		told("the second one", backends.Vanished)
		beat("8")
		told("after a beat", backends.Held)
		c.Seen.For = 10 * time.Second
		time.Sleep(c.Seen.For)
		told("when the beat is known", backends.Held)
		next := newClaim("job")
		c, next = next, c
		told("a newcomer", backends.Held)
		c = next
		time.Sleep(20 * time.Second)
		told("a TTL after the last beat", backends.Vanished)
		c.Seen.For = 30 * time.Second
		told("silent for a TTL", "")
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// lookAs decides a claim on what the Lease is, and keeps nothing of it.
func lookAs(t *testing.T, d *driver, c backends.Claim) error {
	t.Helper()
	s, err := d.read(t.Context(), c.Job)
	if err != nil {
		t.Fatal(err)
	}
	if decision := backends.Decide(s.View(asks(c.Holder.ID, c.Seen)), c); decision.Refusal != nil {
		return decision.Refusal
	}
	return nil
}

func TestLeaseNames(t *testing.T) {
	t.Parallel()
	c := &config{prefix: "leaderrun"}
	for job, want := range map[string]string{
		"backup": "leaderrun-backup",
		"a.b-c":  "leaderrun-a.b-c",
	} {
		if got := c.leaseName(job); got != want {
			t.Errorf("%s: %s, want %s", job, got, want)
		}
	}
	seen := map[string]string{}
	long := string(make([]byte, 300))
	for _, job := range []string{"backup", "Backup", "back up", "back_up", "back-up", "a..b", "a.", "-", "ü", long, long + "x", "x-0123456789abcdef0123", c.leaseName("Backup")[len("leaderrun-"):]} {
		name := c.leaseName(job)
		if !isSubdomain(name) || len(name) > longestLease {
			t.Errorf("%q: %s is no name", job, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both %s", job, other, name)
		}
		seen[name] = job
	}
	if name := (&config{prefix: "###"}).leaseName("###"); !isSubdomain(name) {
		t.Errorf("%s is no name", name)
	}
	for prefix, same := range map[string]bool{"leaderrun": true, "Team.A_b-c": true, "a/b": false, "-a": false, "ü": false} {
		if got := (&config{prefix: prefix}).labelValue(); (got == prefix) != same {
			t.Errorf("label of %q: %s", prefix, got)
		}
	}
}
