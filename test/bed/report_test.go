package bed

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
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
	golden(t, "report.md", second.Markdown())
	golden(t, "peer.md", third.Markdown())
	text, err := json.MarshalIndent(second, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", string(text)+"\n")

	redis := good()
	redis.Store = "redis"
	redis.Faults[0].Fault = "guardian killed"
	page := Render([]Report{Judge(redis.Log), first, third, second}, []string{"a snapshot of a virtual machine that is put back", "suspend of a real machine"})
	golden(t, "page.md", page)
	if page != Render([]Report{Judge(redis.Log), first, third, second}, []string{"a snapshot of a virtual machine that is put back", "suspend of a real machine"}) {
		t.Error("the same reports give another page")
	}
}

func TestReportIsReadBack(t *testing.T) {
	t.Parallel()
	want := Judge(broken().Log)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPeerIsCounted(t *testing.T) {
	t.Parallel()
	r := Judge(peer().Log)
	if want := (Overlaps{Count: 2, Longest: 10 * time.Second, Together: 10 * time.Second}); r.Overlaps != want {
		t.Errorf("%+v, want %+v", r.Overlaps, want)
	}
	if len(r.Violations) > 0 || len(r.Takeovers) > 0 {
		t.Errorf("it was judged: %v %v", r.Violations, r.Takeovers)
	}
	s := peer()
	s.lives("w1", beats.RoleChild, 45) // now there are always two, from 20 s to 45 s
	if got, want := Judge(s.Log).Overlaps, (Overlaps{Count: 3, Longest: 20 * time.Second, Together: 25 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMarginsAndTakeovers(t *testing.T) {
	t.Parallel()
	r := Judge(good().Log)
	if diff := cmp.Diff(Margins{Clean: Times{100 * time.Millisecond}, Fault: Times{20 * time.Second}}, r.Margins[JobWorker]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]Times{"wrapper killed": {25 * time.Second}}, r.Takeovers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := good()
	s.survivor(30.6)
	if got := Judge(s.Log).Margins[JobWorker].Clean[0]; got != -500*time.Millisecond {
		t.Errorf("the margin of an overlap that nothing excuses is %v", got)
	}
	s.blow(Blow{Fault: "wrapper and guardian killed", Excused: true, Where: "a", Run: "w1", Struck: sec(28)})
	if got := Judge(s.Log).Margins[JobWorker].Clean; len(got) > 0 {
		t.Errorf("the margin of an overlap that is excused is %v", got)
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var hundred Times
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		of   Times
		p    int
		want time.Duration
	}{
		{nil, 50, 0},
		{Times{3}, 0, 3},
		{Times{3}, 100, 3},
		{Times{3, 4}, 50, 3},
		{Times{3, 4, 5}, 50, 4},
		{hundred, 0, 1},
		{hundred, 1, 1},
		{hundred, 2, 2},
		{hundred, 50, 50},
		{hundred, 100, 100},
		{hundred.plus(0), 1, 1},
		{hundred.plus(0), 0, 0},
	} {
		if got := c.of.Percentile(c.p); got != c.want {
			t.Errorf("%d%% of %d times: %d, want %d", c.p, len(c.of), got, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	one, two := Judge(good().Log), Judge(broken().Log)
	before, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	slow := Judge(good().Log)
	slow.TTL *= 2
	merged := Merge([]Report{slow, one, two, Judge(peer().Log)})
	if len(merged) != 3 {
		t.Fatalf("%d reports", len(merged))
	}
	if merged[0].Way != "etcdctl lock" || merged[1].TTL != one.TTL || merged[2].TTL != slow.TTL {
		t.Errorf("the order is %s, %v, %v", merged[0].Way, merged[1].TTL, merged[2].TTL)
	}
	m := merged[1]
	if m.Runs != one.Runs+two.Runs || m.Time != one.Time+two.Time || m.Faults != 3 || len(m.Seeds) != 2 || len(m.Violations) != len(two.Violations) {
		t.Errorf("%+v", m)
	}
	if m.Ledger.Writes != one.Ledger.Writes+two.Ledger.Writes || len(m.Margins[JobWorker].Fault) != 2 || len(m.Takeovers["wrapper killed"]) != 1 {
		t.Errorf("%+v", m)
	}
	if after, _ := json.Marshal(one); string(after) != string(before) {
		t.Error("a report that was merged has changed")
	}
}

func TestInsert(t *testing.T) {
	t.Parallel()
	page := "# Reliability\n\n<!-- bed -->\n\nold\n\n<!-- /bed -->\n\nThe end.\n"
	got, err := Insert(page, Render(nil, []string{"new"}))
	if want := "# Reliability\n\n<!-- bed -->\n\nNot covered:\n\n- new\n\n<!-- /bed -->\n\nThe end.\n"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "<!-- bed -->", "<!-- /bed --> <!-- bed -->"} {
		if _, err := Insert(bad, "x"); err == nil || !strings.Contains(err.Error(), "no place") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
