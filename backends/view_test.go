package backends

import (
	"testing"
	"time"
)

func TestParseLabel(t *testing.T) {
	t.Parallel()
	want := LabelOf(Grant{Claim: Claim{Holder: Holder{ID: "a"}}, Token: 7})
	if l, ok := ParseLabel(Marshal(want)); !ok || l != want {
		t.Errorf("%+v, %v; want %+v", l, ok, want)
	}
	for _, text := range []string{"", "x", "null", `{"holder":"a"}`, `{"token":1}`, `{"holder":1,"token":1}`, `{"holder":"a","token":-1}`} {
		if l, ok := ParseLabel([]byte(text)); ok || l != (Label{}) {
			t.Errorf("%q is read as %+v", text, l)
		}
	}
}

// TestBeatView: what is left of a lease is a guess by another host's clock, which may be wrong by any amount.
func TestBeatView(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	if v := BeatView(Record{TTL: ttl.Milliseconds()}, nil, time.Hour); v.Lease != nil || v.Proof != ByBeat {
		t.Errorf("without a lease: %+v", v)
	}
	for _, x := range []struct {
		ends     time.Duration // from now
		ttl      time.Duration // of the record
		min, max time.Duration
	}{
		{30 * time.Second, ttl, 0, 30 * time.Second},
		{-time.Second, ttl, ttl, ttl},
		{time.Hour, ttl, ttl, ttl},
		{-time.Second, 0, time.Hour, time.Hour},
	} {
		r := Record{TTL: x.ttl.Milliseconds(), Until: time.Now().Add(x.ends).UnixMilli()}
		v := BeatView(r, &Label{Holder: "a", Token: 7}, time.Hour)
		if l := v.Lease; l.Holder != "a" || l.Token != 7 || l.Left <= 0 || l.Left < x.min || l.Left > x.max {
			t.Errorf("%+v: %+v", x, *l)
		}
	}
}

// TestStatusOf: what is shown to people is what a candidate is told who comes now.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000_000)
	vanished := Record{Job: "job", Token: 7, TTL: 15_000, Until: now.UnixMilli() + 9_000}
	free := vanished
	free.Released = 7
	ahead := vanished
	ahead.Until += 1_000_000
	for _, x := range []struct {
		what string
		v    View
		want time.Duration
	}{
		{"held", View{Record: vanished, Proof: ByBeat, Lease: &Lease{Holder: "a", Token: 7}}, 0},
		{"free", View{Record: free, Proof: ByBeat}, 0},
		{"free in a store that may have forgotten", View{Record: free, Proof: ByUntil, Quarantine: time.Minute}, time.Minute},
		{"vanished, by silence", View{Record: vanished, Proof: ByBeat}, 15 * time.Second},
		{"vanished, by the clock", View{Record: vanished, Proof: ByUntil}, 9 * time.Second},
		{"vanished, by a clock that went back", View{Record: ahead, Proof: ByUntil}, 15 * time.Second},
		{"vanished, in a store that may have forgotten", View{Record: vanished, Proof: ByUntil, Quarantine: 10 * time.Second}, 10 * time.Second},
		{"vanished, by the end of its lock", View{Record: vanished, Proof: ByRelease}, 0},
	} {
		x.v.Now = now
		s := StatusOf(x.v, "job")
		if s.Wait != x.want || s.Lease != x.v.Lease || s.Now != now || s.Record.Until != x.v.Record.Until {
			t.Errorf("%s: %+v, want a wait of %v", x.what, s, x.want)
		}
		told := Decide(x.v, Claim{Job: "job", Holder: Holder{ID: "b"}, TTL: time.Second}).Refusal
		if x.v.Lease == nil && (told == nil) != (x.want == 0) {
			t.Errorf("%s: a candidate is told %+v", x.what, told)
		}
	}
	if s := StatusOf(View{Lease: &Lease{}, Now: now}, "job"); s.Record.Job != "job" {
		t.Errorf("a lease without a record is of job %q", s.Record.Job)
	}
}
