package credentialplugin

import (
	"strings"
	"testing"
)

// TestUnended: hazard: a plugin hangs where no signal ends it, and every half minute another one is started beside it.
func TestUnended(t *testing.T) {
	t.Parallel()
	s := New(Plugin{APIVersion: V1, Command: "/nowhere/plugin"})
	const refused = "do not end"
	for unended, want := range map[int32]bool{mostUnended - 1: false, mostUnended: true} {
		s.unended.Store(unended)
		if _, err := s.Get(t.Context()); err == nil || strings.Contains(err.Error(), refused) != want {
			t.Errorf("%d do not end: %v; want %q in it: %v", unended, err, refused, want)
		}
	}
}
