package fence_test

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/fence"
)

func TestRunFrom(t *testing.T) {
	for _, c := range []struct {
		token string
		want  int64 // 0: refused
	}{
		{"1", 1},
		{"1763640000000", 1763640000000},
		{"9223372036854775807", 0}, // of no clock
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

// A token that lies beyond every clock would lock all later runs out, for good.
func TestTokensFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := time.Now().UnixMilli() + 24*60*60*1000
		for token, good := range map[int64]bool{
			math.MinInt64: false, -1: false, 0: false, 1: true, limit - 1: true, limit: true, limit + 1: false, math.MaxInt64: false,
		} {
			err := fence.CheckToken(token)
			if _, setup := errors.AsType[*fence.SetupError](err); setup == good || (err == nil) != good {
				t.Errorf("%d: %v", token, err)
			}
		}
	})
}

func FuzzParseToken(f *testing.F) {
	for _, text := range []string{"1", "1763640000000", "9223372036854775807", "9223372036854775808", "0", "-1", "+1", "01", "1e3", " 1", "\u0661", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := fence.ParseToken(text)
		if err == nil && (token < 1 || strconv.FormatInt(token, 10) != text) {
			t.Errorf("%q is %d", text, token)
		}
		if err != nil && (token != 0 || len(err.Error()) > 300) {
			t.Errorf("%q: %d, %v", text, token, err)
		}
		r, wrong := fence.RunFrom(func(string) (string, bool) { return text, true })
		if (wrong == nil) != (err == nil && fence.CheckToken(token) == nil) || wrong == nil && r.Token != token {
			t.Errorf("%q: %+v, %v", text, r, wrong)
		}
	})
}

func TestTrigger(t *testing.T) {
	for _, c := range []struct {
		run  fence.Run
		want string
	}{
		{fence.Run{}, ""},
		{fence.Run{Tick: "2026-01-05T02:00:00Z"}, "2026-01-05T02:00:00Z"},
		{fence.Run{Once: "v42"}, "once:v42"},
	} {
		if got := c.run.Trigger(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.run, got, c.want)
		}
	}
}
