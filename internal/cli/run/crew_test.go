package run

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/shards"
	"github.com/leaderrun/leaderrun/runner"
)

// refusing is a store that refuses all claims, and keeps them.
type refusing struct {
	backends.Driver
	claims []backends.Claim
}

func (r *refusing) Acquire(_ context.Context, c backends.Claim) (backends.Grant, error) {
	r.claims = append(r.claims, c)
	return backends.Grant{}, &backends.Refusal{Verdict: backends.Held, Token: 7}
}

func (r *refusing) Limits() backends.Limits { return backends.Limits{} }

// A token that a crew has seen of a shard is a floor for the next one of that shard, and of no other.
func TestCrewKeepsTheTokensItHasSeen(t *testing.T) {
	timeline, err := runner.NewTimeline(runner.DefaultTTL, -1)
	if err != nil {
		t.Fatal(err)
	}
	store := &refusing{}
	c := &cli.Call{Console: &cli.Console{Out: io.Discard}}
	w := &crew{
		commands: &launch.Launcher{Call: c, LastOutput: time.Second}, plan: &runPlan{job: "j", argv: []string{"true"}, timeline: timeline, conflict: -1},
		runner: runner.Runner{Driver: store}, going: map[chan os.Signal]bool{}, floors: map[string]int64{},
	}
	w.plan.request = runner.Request{Timeline: timeline}
	for _, k := range []int{0, 0, 1} {
		s := shards.Shard{Number: k, Trigger: backends.Trigger{Once: "k", Parts: 2}, Wanted: t.Context()}
		if r := w.run(t.Context(), s); r.Ending != runner.Refused {
			t.Fatalf("%+v", r)
		}
	}
	for i, want := range []int64{0, 7, 0} {
		if got := store.claims[i].Floor; got != want {
			t.Errorf("claim %d: the floor is %d, want %d", i, got, want)
		}
	}
}

// The code of a crew is 0 only if the whole is done, or in good hands.
func TestCrewEnds(t *testing.T) {
	refused := func(v backends.Verdict) *runner.Result {
		return &runner.Result{Ending: runner.Refused, Refusal: &backends.Refusal{Verdict: v}}
	}
	of := func(o shards.Outcome) shards.Outcome {
		o.Trigger = backends.Trigger{Once: "k", Parts: 3}
		return o
	}
	for name, x := range map[string]struct {
		outcome shards.Outcome
		want    int
	}{
		"done":                          {of(shards.Outcome{Done: 3}), 0},
		"others run the rest":           {of(shards.Outcome{Done: 2, Running: 1}), 0},
		"one failed elsewhere":          {of(shards.Outcome{Done: 2, Bad: refused(backends.IsFailed)}), cli.CodeNotRun},
		"one failed, others run":        {of(shards.Outcome{Done: 1, Running: 1, Bad: refused(backends.IsFailed)}), 0},
		"one is divided in another way": {of(shards.Outcome{Done: 2, Open: 1, Bad: refused(backends.Divided)}), cli.CodeConfiguration},
		"the store is away":             {of(shards.Outcome{Open: 3, Stop: &runner.Result{Ending: runner.Unreachable}}), cli.CodeUnavailable},
		"another key is in the way":     {of(shards.Outcome{Open: 3, Busy: &backends.Refusal{Verdict: backends.Held}}), 0},
	} {
		w := &crew{plan: &runPlan{conflict: -1}}
		if end := w.endOf(x.outcome); end.Code != x.want {
			t.Errorf("%s: %d, want %d", name, end.Code, x.want)
		}
	}
}
