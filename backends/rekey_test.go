package backends

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// guarded is a store that lists its jobs to whoever has the password "new". Its URL is the password.
type guarded struct {
	shelf

	password string
	lists    int
}

func (g *guarded) List(context.Context) ([]string, error) {
	g.lists++
	if g.password != "new" {
		return nil, Denied("the password", errors.New("WRONGPASS"))
	}
	return []string{"job"}, nil
}

func (g *guarded) Rekey(rawURL string) error {
	if strings.HasPrefix(rawURL, "other") {
		return errors.New("another store")
	}
	g.password = rawURL
	return nil
}

// TestRekeying: hazard: a rotated password stops everything until somebody starts leaderrun anew; or a store that refuses is asked
// again and again; or a file that is half-written, or names another store, takes a good password away.
func TestRekeying(t *testing.T) {
	t.Parallel()
	errGone := errors.New("no such file")
	type step struct {
		file  string // what it has by now; "": it cannot be read
		lists int    // how often the store is asked
		says  string // the error; "": none
	}
	for name, steps := range map[string][]step{
		"the file has the new password":    {{"new", 2, ""}, {"new", 1, ""}},
		"the same bytes are no second try": {{"old", 1, "WRONGPASS"}, {"old", 1, "WRONGPASS"}, {"new", 2, ""}},
		"one more try, and no third":       {{"bad", 2, "WRONGPASS"}, {"bad", 1, "WRONGPASS"}, {"new", 2, ""}},
		"a file that cannot be read":       {{"", 1, "no such file"}, {"new", 2, ""}},
		"another store is not taken":       {{"other", 1, "another store"}, {"other", 1, "another store"}, {"new", 2, ""}},
	} {
		g := &guarded{password: "old"}
		e := NewEngine(g)
		now := ""
		e.FollowURL("old", func() (string, error) {
			if now == "" {
				return "", errGone
			}
			return now, nil
		})
		for i, s := range steps {
			now, g.lists = s.file, 0
			_, err := e.Jobs(t.Context())
			refused, denied := errors.AsType[*PermanentError](err)
			if g.lists != s.lists || (err == nil) != (s.says == "") {
				t.Errorf("%s: step %d: asked %d times, %v", name, i, g.lists, err)
			}
			if err != nil && (!denied || refused.Kind != Credentials || !strings.Contains(err.Error(), "WRONGPASS") || !strings.Contains(err.Error(), s.says)) {
				t.Errorf("%s: step %d: %v", name, i, err)
			}
		}
	}
	e := NewEngine(&guarded{password: "old"})
	e.FollowURL("old", func() (string, error) { return "new", nil })
	for _, want := range []bool{true, false} {
		if changed, err := e.Reread(t.Context()); changed != want || err != nil {
			t.Errorf("read again: %v, %v", changed, err)
		}
	}
}

// TestRekeyingDelaysNobody: a renewal that is refused ends with its try, also while the file system hangs.
func TestRekeyingDelaysNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		e := NewEngine(&guarded{password: "old"})
		e.FollowURL("old", func() (string, error) { <-hangs; return "new", nil })
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			if _, err := e.Jobs(ctx); err == nil || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			cancel()
		}
		close(hangs)
		synctest.Wait()
		if jobs, err := e.Jobs(t.Context()); err != nil || len(jobs) != 1 {
			t.Errorf("%v, %v", jobs, err)
		}
	})
}
