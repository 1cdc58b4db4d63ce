package checkup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// TestHosts: hazard: none of several hosts answers, and the store is not said to be bad.
func TestHosts(t *testing.T) {
	t.Parallel()
	reach := func(g backends.Grade, why, remedy string) backends.Finding {
		return backends.Finding{Grade: g, What: Reachable, Why: why, Remedy: remedy}
	}
	down := Answer{Err: errors.New("b: connection refused"), Remedy: "start it"}
	untrusted := Answer{Err: &backends.PermanentError{Err: errors.New("c: unknown authority"), Hint: "?ca="}, Remedy: "start it"}
	for name, c := range map[string]struct {
		all  []Answer
		want Findings
	}{
		"one": {[]Answer{down}, Findings{reach(backends.Bad, "b: connection refused", "start it")}},
		"none of two": {[]Answer{down, untrusted}, Findings{
			reach(backends.Bad, "b: connection refused", "start it"), reach(backends.Bad, "c: unknown authority", "?ca="),
		}},
		"one of three": {[]Answer{untrusted, {Fine: "a answers 100%"}, down}, Findings{
			reach(backends.Warning, "c: unknown authority", "?ca="),
			reach(backends.Fine, "a answers 100%", ""),
			reach(backends.Warning, "b: connection refused", "start it"),
		}},
	} {
		var f Findings
		if f.Hosts(c.all); !slices.Equal(f, c.want) {
			t.Errorf("%s: %+v, want %+v", name, f, c.want)
		}
	}
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, named int
		grade    backends.Grade
		say      string
	}{
		{1, 1, backends.Warning, "one"},
		{2, 2, backends.Warning, "no more failures than 1"},
		{3, 1, backends.Warning, "names 1 of 3"},
		{3, 3, backends.Fine, "of which 1 may fail"},
		{4, 4, backends.Warning, "no more failures than 3"},
		{5, 7, backends.Fine, "of which 2 may fail"},
	} {
		var f Findings
		f.Quorum("members", c.n, c.named)
		if len(f) != 1 || f[0].Grade != c.grade || f[0].What != "members" || !strings.Contains(f[0].Why, c.say) || (f[0].Remedy == "") != (c.grade == backends.Fine) {
			t.Errorf("%d, of which %d are named: %+v", c.n, c.named, f)
		}
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	var f Findings
	f.Readable("token file", "token", "")
	f.Readable("token file", "token", file) // which is not there
	for _, mode := range []os.FileMode{0o600, 0o640, 0o604} {
		if err := errors.Join(os.WriteFile(file, nil, mode), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		f.Readable("token file", "token", file)
	}
	if len(f) != 1 || f[0].Grade != backends.Warning || f[0].Remedy != "chmod o-r "+file || !strings.Contains(f[0].Why, "token in "+file) {
		t.Errorf("%+v", f)
	}
}

// TestLimited: hazard: a server that is frozen keeps the examination for ever.
func TestLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := Limited(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != AskLimit {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if n, err := Limited(t.Context(), func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}
