package suite

import (
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
)

// Findings are findings by what was looked at.
type Findings map[string][]backends.Finding

// Examined sorts findings, and checks that those that are not fine, and only those, have a remedy, and that none shows
// the secret; "": there is none.
func Examined(t *testing.T, findings []backends.Finding, secret string) Findings {
	t.Helper()
	all := Findings{}
	for _, f := range findings {
		if (f.Remedy == "") != (f.Grade == backends.Fine) {
			t.Errorf("%+v: the remedy does not fit the grade", f)
		}
		if secret != "" && strings.Contains(f.Why+f.Remedy, secret) {
			t.Errorf("%+v shows the password", f)
		}
		all[f.What] = append(all[f.What], f)
	}
	return all
}

// Expect checks that there is a finding of a grade that says something.
func (all Findings) Expect(t *testing.T, what string, grade backends.Grade, say string) {
	t.Helper()
	if !slices.ContainsFunc(all[what], func(f backends.Finding) bool { return f.Grade == grade && strings.Contains(f.Why, say) }) {
		t.Errorf("%s: %+v, want %s with %q; all: %+v", what, all[what], grade, say, all)
	}
}
