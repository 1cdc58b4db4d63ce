package file

import (
	"errors"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/test/suite"
)

func orderFor(kind backends.OrderKind, token int64) backends.Order {
	return backends.Order{Job: "job", Kind: kind, Token: token, By: backends.Holder{ID: suite.NewID(), Host: "desk", User: "jo"}}
}

// The lock of a run that an operator has removed is no evidence any more: who lives cannot be seen.
func TestOrderWithoutLock(t *testing.T) {
	steps := suite.On(t)
	dir := t.TempDir()
	d := openDir(t, dir)
	g := steps.Acquire(d, claimFor("job"))
	removeLocks(t, pathsIn(dir, "job"))
	for _, kind := range []backends.OrderKind{backends.Stop, backends.Revoke, backends.ForgetJob} {
		err := d.Order(t.Context(), orderFor(kind, g.Token))
		if r, ok := errors.AsType[*backends.Refusal](err); !ok || r.Verdict != backends.Vanished || r.Wait <= 0 {
			t.Errorf("%s: %v, want vanished and how long to wait", kind, err)
		}
	}
	if err := d.Order(t.Context(), orderFor(backends.ForceRelease, g.Token)); err != nil {
		t.Fatal(err)
	}
	next := steps.Acquire(d, claimFor("job"))
	if _, err := d.Renew(t.Context(), g); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Renew of the dead holder: %v", err)
	}
	steps.Finish(d, next)
}
