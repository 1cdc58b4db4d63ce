package backends

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/remedy"
)

// From such a number the next one would be lower, or a lease would be over before it begins.
func TestNumbersThatNobodyWrote(t *testing.T) {
	for field, bad := range map[string][]string{
		`"token":N`: {"-1"}, `"released":N`: {"-1"}, `"ttl":N`: {"-1", "3153600000001"}, `"beat":N`: {"-1"}, `"until":N`: {"-1"},
		`"granted":N`: {"-1"}, `"ended":N`: {"-1"}, `"passed":N`: {"-1"}, `"tick":{"state":"done","tick":N}`: {"-1"},
		`"tick":{"attempt":N}`: {"-1", "2147483648"}, `"once":[{"key":"a","state":"lost","attempt":N}]`: {"-1"}, `"once":[{"state":"lost","max_attempts":N}]`: {"-1"},
		`"schedule":{"at":N}`: {"-1"}, `"runs":[{"state":"done","token":N}]`: {"-1"}, `"runs":[{"state":"done","attempt":N}]`: {"-1"}, `"runs":[{"state":"done","ended":N}]`: {"-1"},
	} {
		for _, n := range append(bad, "9223372036854775807", "-9223372036854775808", "9007199254740992") {
			text := `{"job":"a",` + strings.Replace(field, "N", n, 1) + `}`
			if r, err := ParseRecord([]byte(text)); err == nil {
				t.Errorf("%s is read as %+v", text, r)
			}
		}
		if _, err := ParseRecord([]byte(`{"job":"a",` + strings.Replace(field, "N", "7", 1) + `}`)); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Hazard: a run keeps whatever a store says is its record. What leaderrun itself writes is never refused for it, whatever the names.
func TestLongRecord(t *testing.T) {
	worst := func(n int) string { return strings.Repeat("<", n) } // six bytes each
	by := Holder{ID: strings.Repeat("a", 32), Host: worst(64), PID: 1 << 30, User: worst(32)}
	key := Occurrence{Tick: 1 << 40, Key: worst(255), State: Claimed, Claimant: by, Policy: Rerun, Attempt: 1 << 30, MaxAttempts: 1 << 30}
	run := Run{Token: MaxToken, Holder: by, Tick: 1 << 40, Key: worst(255), Started: MaxToken, Ended: MaxToken, State: Stopped, Note: breakNote(by, worst(1000))}
	plan := Schedule{Fingerprint: strings.Repeat("a", 64), Text: worst(1000), By: by, At: MaxToken}
	full := Record{
		Job: worst(255), Token: MaxToken, Holder: by, Tick: key, Once: slices.Repeat([]Occurrence{key}, KeptKeys), Schedule: plan,
		Former: slices.Repeat([]Schedule{plan}, KeptSchedules), Runs: slices.Repeat([]Run{run}, KeptRuns),
		Refused: slices.Repeat([]string{by.ID}, KeptAbandoned), Orders: slices.Repeat([]string{by.ID}, KeptOrders), Break: &BreakRequest{By: by, Reason: worst(1000)},
	}
	text := Marshal(full)
	if _, err := ParseRecord(text); err != nil {
		t.Errorf("the fullest that leaderrun writes: %v", err)
	}
	for _, longer := range []string{
		string(text) + strings.Repeat(" ", maxRecord), `{"job":"a","schedule":{"text":"` + strings.Repeat("a", maxRecord) + `"}}`,
	} {
		if _, err := ParseRecord([]byte(longer)); err == nil || !strings.Contains(err.Error(), "524288") {
			t.Errorf("one of %d bytes: %v", len(longer), err)
		}
	}
}

// No text panics, and what is read decides without an overflow, and can be written and read again.
func FuzzParseRecord(f *testing.F) {
	full := Record{
		Job: "a", Token: 3, Holder: Holder{ID: "h"}, TTL: 5, Granted: 6, Until: 7, Beat: 8, Released: 2, Ended: 9, Passed: 1,
		Tick: Occurrence{Tick: 4, State: Claimed, Attempt: 1, MaxAttempts: 3}, Once: []Occurrence{{Key: "k", State: Done}},
		Schedule: Schedule{Fingerprint: "f", Text: "t"}, Runs: []Run{{Token: 3, State: Claimed}}, Refused: []string{"x"},
		Break: &BreakRequest{Token: 3},
	}
	f.Add(Marshal(full))
	f.Add(Marshal(Record{Job: "a", Token: MaxToken, Released: MaxToken, Beat: MaxToken, Until: MaxToken, TTL: maxRecordTTL}))
	f.Add([]byte(`{"job":"a","token":9223372036854775807}`))
	f.Add([]byte(`{"job":"a","ttl":9223372036854775807,"until":1}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"job":"` + strings.Repeat("a", maxRecord) + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRecord(text)
		if err != nil {
			return
		}
		if len(Marshal(r)) > maxRecord { // with escapes that the text does without
			return
		}
		again, err := ParseRecord(Marshal(r))
		if err != nil || !reflect.DeepEqual(Marshal(again), Marshal(r)) {
			t.Fatalf("%s is read as %s, %v", Marshal(r), Marshal(again), err)
		}
		now := time.UnixMilli(1_700_000_000_000)
		for _, proof := range []Proof{ByUntil, ByBeat, ByRelease} {
			for _, c := range []Claim{
				{Job: "a", Holder: Holder{ID: "c"}, TTL: time.Minute, Floor: MaxToken},
				{Job: "a", Holder: Holder{ID: "c"}, TTL: time.Minute, Trigger: Trigger{Tick: now.Unix(), OnLost: Rerun, MaxAttempts: math.MaxInt32}},
				{Job: "a", Holder: Holder{ID: "c"}, TTL: time.Minute, Trigger: Trigger{Once: "k", OnLost: Rerun, MaxAttempts: math.MaxInt32}},
			} {
				d := Decide(View{Record: r, Now: now, Proof: proof}, c)
				switch {
				case (d.Grant == nil) == (d.Refusal == nil):
					t.Fatalf("%s: %+v", text, d)
				case d.Grant != nil && (d.Grant.Token <= r.Token || d.Record.Beat <= r.Beat || d.Grant.Token <= c.Floor || d.Grant.Attempt < 1):
					t.Fatalf("%s: granted %+v", text, d.Grant)
				case d.Grant != nil && proof != ByRelease && r.Token != r.Released && r.TTL > 0 && (proof == ByBeat || r.Until > now.UnixMilli()):
					t.Fatalf("%s: granted beside its holder", text)
				case d.Refusal != nil && d.Refusal.Wait < 0:
					t.Fatalf("%s: wait %v", text, d.Refusal.Wait)
				}
			}
		}
	})
}

// What a newer leaderrun has written is not read, whatever its fields are like, and not taken for damaged.
func TestNewerForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"form":2,"job":"a"}`, `{"form":3,"job":"a","token":"of another kind"}`} {
		_, err := ParseRecord([]byte(text))
		outer := Misconfigured("remove it", "the record is damaged: %w", err)
		if err == nil || !strings.Contains(err.Error(), "a newer leaderrun") || !strings.Contains(remedy.Of(outer), "install that leaderrun") {
			t.Errorf("%s: %v, hint %q", text, err, remedy.Of(outer))
		}
	}
	for _, text := range []string{`{"job":"a"}`, `{"form":1,"job":"a"}`} {
		if _, err := ParseRecord([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAsksToStop: a record that was rolled back names an earlier run than the one that is asked; one that was granted since is not meant.
func TestAsksToStop(t *testing.T) {
	for asked, want := range map[int64]bool{6: false, 7: true, 8: true} {
		if r := (Record{Token: 7, Break: &BreakRequest{Token: asked}}); r.AsksToStop() != want {
			t.Errorf("token 7 is asked to stop by a request to %d: %v", asked, !want)
		}
	}
	if new(Record).AsksToStop() {
		t.Error("nobody is asked, and a record says so")
	}
}
