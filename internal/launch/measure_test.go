package launch

import (
	"errors"
	"testing"

	"github.com/leaderrun/leaderrun/internal/cli"
)

// One job's error is not another's: neither hides the other, and none comes twice.
func TestTextfilesTellOfEachJob(t *testing.T) {
	files := NewTextfiles(&cli.Console{}, "none")
	full, foreign := errors.New("the disk is full"), errors.New("a's file is foreign")
	for i, c := range []struct {
		job  string
		err  error
		news bool
	}{
		{"a", foreign, true},
		{"b", nil, false},
		{"a", foreign, false},
		{"b", full, true},
		{"a", full, false},
		{"b", full, false},
		{"a", foreign, true},
		{"b", nil, false},
		{"a", nil, false},
		{"a", foreign, true},
	} {
		if got := files.isNews(c.job, c.err); got != c.news {
			t.Errorf("%d: %s: %v is news: %v, want %v", i, c.job, c.err, got, c.news)
		}
	}
	files.isNews("b", nil)
	files.forget("a")
	if !files.isNews("a", foreign) {
		t.Error("a job that was forgotten is remembered")
	}
}
