package runner

import (
	"testing"
	"time"
)

func TestTimeline(t *testing.T) {
	for _, c := range []struct{ ttl, grace, wantGrace, term, kill, end time.Duration }{
		{15 * time.Second, -1, 3 * time.Second, 11 * time.Second, 14 * time.Second, 14700 * time.Millisecond},
		{5 * time.Second, -1, 716 * time.Millisecond, 3334 * time.Millisecond, 4050 * time.Millisecond, 4750 * time.Millisecond},
		{60 * time.Second, -1, 12 * time.Second, 46100 * time.Millisecond, 58100 * time.Millisecond, 58800 * time.Millisecond},
		{15 * time.Second, 0, 0, 14 * time.Second, 14 * time.Second, 14700 * time.Millisecond},
		{15 * time.Second, 4 * time.Second, 4 * time.Second, 10 * time.Second, 14 * time.Second, 14700 * time.Millisecond},
	} {
		plan, err := NewTimeline(c.ttl, c.grace)
		if err != nil {
			t.Errorf("%v/%v: %v", c.ttl, c.grace, err)
			continue
		}
		d := plan.Deadline(0)
		if plan.Grace != c.wantGrace || d != (Deadline{Term: Instant(c.term), Kill: Instant(c.kill), End: Instant(c.end)}) {
			t.Errorf("%v/%v: grace %v, deadlines %v", c.ttl, c.grace, plan.Grace, d)
		}
	}
}

func TestEveryTimelineLeavesRoomForTwoRetries(t *testing.T) {
	for ttl := MinTTL; ttl < 10*time.Minute; ttl += 37 * time.Millisecond {
		plan, err := NewTimeline(ttl, -1)
		if err != nil {
			t.Fatalf("%v: %v", ttl, err)
		}
		if term := time.Duration(plan.Deadline(0).Term); term < plan.renewEvery()+2*plan.requestLimit() {
			t.Fatalf("%v: SIGTERM at %v leaves no room", ttl, term)
		}
	}
}

func TestTimelineThatDoesNotFitNamesTheLargestThatDoes(t *testing.T) {
	if _, err := NewTimeline(15*time.Second, 4001*time.Millisecond); err == nil || err.Error() != "a grace of 4.001s does not fit a TTL of 15s: at most 4s" {
		t.Errorf("got %v", err)
	}
	if _, err := NewTimeline(4*time.Second, -1); err == nil {
		t.Error("a TTL of 4s was accepted")
	}
}
