package backends

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
)

// TestHosts: hazard: none of several hosts answers, and the store is not said to be bad.
func TestHosts(t *testing.T) {
	t.Parallel()
	down := Answer{Err: errors.New("b: connection refused"), Remedy: "start it"}
	untrusted := Answer{Err: &PermanentError{Err: errors.New("c: unknown authority"), Hint: "?ca="}, Remedy: "start it"}
	for name, c := range map[string]struct {
		all  []Answer
		want Findings
	}{
		"one": {[]Answer{down}, Findings{{Bad, Reachable, "b: connection refused", "start it"}}},
		"none of two": {[]Answer{down, untrusted}, Findings{
			{Bad, Reachable, "b: connection refused", "start it"}, {Bad, Reachable, "c: unknown authority", "?ca="},
		}},
		"one of three": {[]Answer{untrusted, {Fine: "a answers 100%"}, down}, Findings{
			{Warning, Reachable, "c: unknown authority", "?ca="},
			{Fine, Reachable, "a answers 100%", ""},
			{Warning, Reachable, "b: connection refused", "start it"},
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
		grade    Grade
		say      string
	}{
		{1, 1, Warning, "one"},
		{2, 2, Warning, "no more failures than 1"},
		{3, 1, Warning, "names 1 of 3"},
		{3, 3, Fine, "of which 1 may fail"},
		{4, 4, Warning, "no more failures than 3"},
		{5, 7, Fine, "of which 2 may fail"},
	} {
		var f Findings
		f.Quorum("members", c.n, c.named)
		if len(f) != 1 || f[0].Grade != c.grade || f[0].What != "members" || !strings.Contains(f[0].Why, c.say) || (f[0].Remedy == "") != (c.grade == Fine) {
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
	if len(f) != 1 || f[0].Grade != Warning || f[0].Remedy != "chmod o-r "+file || !strings.Contains(f[0].Why, "token in "+file) {
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
