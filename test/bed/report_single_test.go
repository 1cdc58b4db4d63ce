package bed

import (
	"strings"
	"testing"
	"time"
)

func TestTableOfSingleFaults(t *testing.T) {
	t.Parallel()
	got := RenderSingle(map[string][]Report{
		"wrapper killed": {
			{Store: "file", Way: "flock", Overlaps: Overlaps{Count: 1, Together: 20 * time.Second}, Ledger: Ledger{StaleUnfenced: 7}},
			{Store: "file", Way: ours},
			{Store: "etcd", Way: ours, Violations: []Violation{{}}},
		},
		"machine frozen": {{Store: "file", Way: ours, Overlaps: Overlaps{Count: 1, Excused: 1, Together: time.Second}, Ledger: Ledger{Refused: 3}}},
	})
	for _, want := range []string{
		"| fault | leaderrun, etcd | leaderrun, file | flock, file |",
		"| wrapper killed | **violation** | one | **two for 20.0 s**, 7 stale writes |",
		"| machine frozen | | two for 1.0 s, excused: 3 stale writes refused, 0 accepted | |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no line %q in\n%s", want, got)
		}
	}
}
