package bed

import (
	"bytes"
	"fmt"
	"slices"
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
