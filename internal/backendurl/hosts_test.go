package backendurl

import (
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

var errDown, errUntrusted = errors.New("connection refused"), errors.New("unknown authority")

// judge says that only one of these errors is permanent.
func judge(err error) error {
	if errors.Is(err, errUntrusted) {
		return backends.Misconfigured("?ca=", "%w", err)
	}
	return err
}

// TestUnreached: hazard: what is wrong with one host ends a run that another would have served; and what is wrong with all is
// tried for ever.
func TestUnreached(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures  map[string]error
		hosts     int
		permanent bool
	}{
		"one":              {map[string]error{"a": errUntrusted}, 1, true},
		"all":              {map[string]error{"a": errUntrusted, "b": errUntrusted}, 2, true},
		"one may be up":    {map[string]error{"a": errUntrusted, "b": errDown}, 2, false},
		"one is not asked": {map[string]error{"a": errUntrusted}, 2, false},
		"none":             {nil, 0, false},
	} {
		u := new(Unreached)
		for host, err := range c.failures {
			u.Failed(host, errors.Join(err))
		}
		err := u.Judge(c.hosts, judge)
		p, permanent := errors.AsType[*backends.PermanentError](err)
		if permanent != c.permanent || permanent && p.Hint != "?ca=" || !permanent && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for host, failure := range c.failures {
			if !errors.Is(u, failure) || !strings.Contains(u.Error(), failure.Error()) || strings.Contains(u.Error(), "\n") {
				t.Errorf("%s: %q does not say of %s: %v", name, u, host, failure)
			}
		}
	}
}

// TestFaults: a fault counts until a host has served, or until its own host fails in another way.
func TestFaults(t *testing.T) {
	t.Parallel()
	f := new(Faults)
	want := func(everywhere bool) {
		t.Helper()
		if f.Everywhere(2) != everywhere {
			t.Errorf("everywhere: %v", !everywhere)
		}
	}
	f.Failed("a", true)
	f.Failed("a", true)
	want(false)
	f.Failed("b", true)
	want(true)
	f.Failed("a", false)
	want(false)
	f.Failed("a", true)
	want(true)
	f.Served()
	want(false)
	f.Failed("b", true)
	want(false)
}
