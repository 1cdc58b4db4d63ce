package fence_test

import (
	"errors"
	"testing"

	"github.com/leaderrun/leaderrun/fence"
)

func TestRunFrom(t *testing.T) {
	for _, c := range []struct {
		token string
		want  int64 // 0: refused
	}{
		{"1", 1},
		{"9223372036854775807", 9223372036854775807},
		{"", 0},
		{"0", 0},
		{"-1", 0},
		{"+1", 0},
		{" 1", 0},
		{"1 ", 0},
		{"01", 0},
		{"1e3", 0},
		{"0x1", 0},
		{"1_000", 0},
		{"9223372036854775808", 0},
		{"twelve", 0},
	} {
		environment := map[string]string{
			"LEADERRUN_TOKEN": c.token, "LEADERRUN_JOB": "report", "LEADERRUN_TICK": "2026-01-05T02:00:00Z",
		}
		r, err := fence.RunFrom(func(name string) (string, bool) { v, ok := environment[name]; return v, ok })
		wrong, refused := errors.AsType[*fence.EnvironmentError](err)
		switch {
		case c.want == 0 && (!refused || wrong.Variable != "LEADERRUN_TOKEN" || wrong.Reason == ""):
			t.Errorf("token %q: got %+v and %v, want an error about the token", c.token, r, err)
		case c.want != 0 && (err != nil || r != fence.Run{Token: c.want, Job: "report", Tick: "2026-01-05T02:00:00Z"}):
			t.Errorf("token %q: got %+v and %v", c.token, r, err)
		}
	}
	if _, err := fence.RunFrom(func(string) (string, bool) { return "", false }); err == nil {
		t.Error("there is a run without an environment")
	}
}

func TestOccasion(t *testing.T) {
	for _, c := range []struct {
		run  fence.Run
		want string
	}{
		{fence.Run{}, ""},
		{fence.Run{Tick: "2026-01-05T02:00:00Z"}, "2026-01-05T02:00:00Z"},
		{fence.Run{Once: "v42"}, "once:v42"},
	} {
		if got := c.run.Occasion(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.run, got, c.want)
		}
	}
}
