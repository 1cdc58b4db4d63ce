package bed

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/leaderrun/leaderrun/test/witness/beats"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// broken is a scene with some of everything that a report tells.
func broken() *scene {
	s := good()
	s.Seed = 8
	s.survivor(30.6)
	s.blow(Blow{Fault: "host frozen", Excused: true, Where: "b", Run: "w2", Struck: sec(57), Mended: sec(58)})
	s.end("s1").Code = 76
	s.span("w2", beats.RoleChild).Pause = 12 * time.Second
	s.Ledgers[JobWorker] = Ledger{Writes: 900, StaleUnfenced: 3, Refused: 3}
	return s
}

// peer is a bed on which two runs lived on beside those that followed them.
func peer() *scene {
	s := &scene{Log: Log{Store: "etcd", Way: "etcdctl lock", TTL: 10 * time.Second, Seed: 7, Began: sec(0), Ended: sec(100)}}
	s.worker("w1", "a", 0, 1, 30)
	s.worker("w2", "b", 0, 20, 40)
	s.worker("w3", "c", 0, 39, 60)
	s.worker("w4", "a", 0, 61, 70)
	s.blow(Blow{Fault: "wrapper stopped", Where: "a", Struck: sec(5), Mended: sec(25)})
	s.Ledgers = map[string]Ledger{JobWorker: {Writes: 100, StaleUnfenced: 17}}
	return s
}

func TestReports(t *testing.T) {
	t.Parallel()
	first, second, third := Judge(good().Log), Judge(broken().Log), Judge(peer().Log)
	text, err := json.MarshalIndent(second, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", string(text)+"\n")

	redis := good()
	redis.Store = "redis"
	redis.Faults[0].Fault = "guardian killed"
	page := Render([]Report{Judge(redis.Log), first, third, second})
	golden(t, "page.md", page)
	if page != Render([]Report{Judge(redis.Log), first, third, second}) {
		t.Error("the same reports give another page")
	}
}
