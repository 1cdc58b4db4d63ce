package bed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/leaderrun/leaderrun/test/witness/beats"
	"pgregory.net/rapid"
)

func TestLogIsReadBack(t *testing.T) {
	t.Parallel()
	want := broken().Log
	var b bytes.Buffer
	if err := WriteLog(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLog(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLogOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"Store": 1}`, `{"Swans": []}`} {
		if _, err := ReadLog(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// shifted is a log that happened at another time.
func shifted(l Log, by time.Duration) Log {
	move := func(i *instant) {
		if *i != 0 {
			*i = i.Add(by)
		}
	}
	l.Spans, l.Ends, l.Faults = slices.Clone(l.Spans), slices.Clone(l.Ends), slices.Clone(l.Faults)
	move(&l.Began)
	move(&l.Ended)
	for i := range l.Spans {
		move(&l.Spans[i].Began)
		move(&l.Spans[i].First)
		move(&l.Spans[i].Last)
	}
	for i := range l.Ends {
		move(&l.Ends[i].Began)
		move(&l.Ends[i].Ended)
	}
	for i := range l.Faults {
		move(&l.Faults[i].Struck)
		move(&l.Faults[i].Mending)
		move(&l.Faults[i].Mended)
	}
	return l
}

// shuffled is a log whose lists are in another order.
func shuffled(l Log, seed uint64) Log {
	chance := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it has to be the same again
	l.Spans, l.Ends, l.Faults = slices.Clone(l.Spans), slices.Clone(l.Ends), slices.Clone(l.Faults)
	chance.Shuffle(len(l.Spans), func(i, j int) { l.Spans[i], l.Spans[j] = l.Spans[j], l.Spans[i] })
	chance.Shuffle(len(l.Ends), func(i, j int) { l.Ends[i], l.Ends[j] = l.Ends[j], l.Ends[i] })
	chance.Shuffle(len(l.Faults), func(i, j int) { l.Faults[i], l.Faults[j] = l.Faults[j], l.Faults[i] })
	return l
}

// When a log happened, and in what order its lists are, makes no difference to any scene.
func TestVerdictDependsOnWhatHappened(t *testing.T) {
	t.Parallel()
	for i, r := range rules() {
		s := good()
		r.change(s)
		want := Judge(s.Log)
		if diff := cmp.Diff(want, Judge(shifted(s.Log, 1234567891*time.Nanosecond))); diff != "" {
			t.Errorf("%s, at another time (-want +got):\n%s", r.name, diff)
		}
		if diff := cmp.Diff(want, Judge(shuffled(s.Log, uint64(i)))); diff != "" {
			t.Errorf("%s, in another order (-want +got):\n%s", r.name, diff)
		}
	}
}

// Runs that follow each other keep every promise, and if any process of any of them lives into the next, that is seen.
func TestAnyOverlapIsSeen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{Log: Log{Store: "redis", Way: ours, TTL: 5 * time.Second, Ended: sec(1e4)}}
		n := rapid.IntRange(2, 20).Draw(t, "runs")
		now := 1.0
		for i := range n {
			now += float64(rapid.IntRange(1, 9).Draw(t, "margin")) / 1e6
			life := float64(rapid.IntRange(0, 1e6).Draw(t, "life")) / 1e6
			s.worker(fmt.Sprint(i), rapid.SampledFrom(Hosts).Draw(t, "host"), int64(i+1), now, now+life).over()
			now += life
		}
		if v := Judge(s.Log).Violations; len(v) > 0 {
			t.Fatalf("violations: %v", v)
		}
		who := rapid.IntRange(0, n-2).Draw(t, "who")
		role := rapid.SampledFrom([]beats.Role{beats.RoleMain, beats.RoleChild, beats.RoleOrphan}).Draw(t, "role")
		s.span(fmt.Sprint(who), role).Last = s.span(fmt.Sprint(who+1), beats.RoleMain).First
		seen := slices.ContainsFunc(Judge(s.Log).Violations, func(v Violation) bool { return v.Invariant == "I1" })
		if !seen {
			t.Fatal("the overlap was not seen")
		}
	})
}

// Whatever is in a log, there is a verdict.
func FuzzJudge(f *testing.F) {
	for _, s := range []*scene{good(), broken(), peer()} {
		text, err := json.Marshal(s.Log)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		l, err := ReadLog(bytes.NewReader(text))
		if err != nil {
			return
		}
		r := Judge(l)
		_ = r.Markdown()
		_ = Render([]Report{r, r}, nil)
	})
}
