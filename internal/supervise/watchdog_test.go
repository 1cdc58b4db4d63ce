package supervise

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
)

func TestWatchdog(t *testing.T) {
	const s = boottime.Instant(time.Second)
	first := lifeline.Deadline{Term: 10 * s, Kill: 15 * s, End: 16 * s}
	second := lifeline.Deadline{Term: 20 * s, Kill: 25 * s, End: 26 * s}
	answer := boottime.Instant(graceToAnswer)
	tests := []struct {
		name string
		do   func(w *watchdog)
		due  boottime.Instant
	}{
		{"Start was sent just before SIGTERM, and is not answered", func(w *watchdog) { w.start(first, 99*s/10) }, 109 * s / 10},
		{"Start is not answered", func(*watchdog) {}, first.Term},
		{"nothing is sent", func(w *watchdog) { w.ack(1) }, first.Kill + answer},
		{"an extension is not answered", func(w *watchdog) { w.ack(1); w.extend(second, 5*s) }, first.Term},
		{"one that was sent just before SIGTERM is not answered", func(w *watchdog) { w.ack(1); w.extend(second, 99*s/10) }, 109 * s / 10},
		{"nor is one before it", func(w *watchdog) {
			w.ack(1)
			w.extend(second, 5*s)
			w.extend(lifeline.Deadline{Term: 30 * s, Kill: 35 * s, End: 36 * s}, 99*s/10)
		}, first.Term},
		{"one that was sent just before SIGKILL is not answered", func(w *watchdog) { w.ack(1); w.extend(second, 149*s/10) }, first.Kill + answer},
		{"it is", func(w *watchdog) { w.ack(1); w.extend(second, 5*s); w.ack(2) }, second.Kill + answer},
		{"the older of two is", func(w *watchdog) {
			w.ack(1)
			w.extend(second, 5*s)
			w.extend(lifeline.Deadline{Term: 30 * s, Kill: 35 * s, End: 36 * s}, 6*s)
			w.ack(2)
		}, second.Term},
		{"an answer to nothing", func(w *watchdog) { w.ack(7) }, first.Kill + answer},
		{"it goes back", func(w *watchdog) { w.ack(1); w.extend(lifeline.Deadline{}, 5*s) }, first.Kill + answer},
		{"asked to kill", func(w *watchdog) { w.ack(1); w.askKill(3*s, true); w.askKill(4*s, true) }, 3*s + answer},
		{"asked to kill under its lease", func(w *watchdog) { w.ack(1); w.askKill(3*s, false) }, 3*s + boottime.Instant(slack)},
		{"and the lease is lost meanwhile", func(w *watchdog) { w.ack(1); w.askKill(3*s, false); w.askKill(4*s, true) }, 4*s + answer},
		{"asked to kill shortly before it must", func(w *watchdog) { w.ack(1); w.askKill(12*s, false) }, first.Kill + answer},
		{"asked to kill while an extension is under way", func(w *watchdog) {
			w.ack(1)
			w.extend(second, 99*s/10)
			w.askKill(995*s/100, true)
		}, 995*s/100 + answer},
		{"it kills while an extension is under way", func(w *watchdog) {
			w.ack(1)
			w.extend(second, 99*s/10)
			w.heard(995*s/100, true)
		}, 995*s/100 + boottime.Instant(slack)},
		{"it kills because it was asked", func(w *watchdog) { w.ack(1); w.askKill(3*s, true); w.heard(4*s, true) }, 4*s + boottime.Instant(silence)},
		{"it kills under its lease because it was asked", func(w *watchdog) { w.ack(1); w.askKill(3*s, false); w.heard(4*s, true) }, 4*s + boottime.Instant(slack)},
		{"it kills by itself", func(w *watchdog) { w.ack(1); w.heard(4*s, true) }, 4*s + boottime.Instant(slack)},
		{"it kills by itself when it is asked to", func(w *watchdog) { w.ack(1); w.heard(4*s, true); w.askKill(7*s, true) }, 7*s + answer},
		{"it says more", func(w *watchdog) { w.ack(1); w.heard(4*s, true); w.heard(5*s, false) }, 5*s + boottime.Instant(slack)},
		{"it kills shortly before it must", func(w *watchdog) { w.ack(1); w.heard(12*s, true) }, first.Kill + answer},
		{"it kills just before it must", func(w *watchdog) { w.ack(1); w.heard(149*s/10, true) }, 149*s/10 + boottime.Instant(silence)},
		{"it kills at the deadline", func(w *watchdog) { w.ack(1); w.heard(first.Kill, true) }, first.Kill + boottime.Instant(silence)},
		{"dead", func(w *watchdog) { w.phase = dead }, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := new(watchdog)
			if w.due() != 0 {
				t.Error("due before Start")
			}
			w.start(first, s)
			test.do(w)
			if due := w.due(); due != test.due {
				t.Errorf("due %d, want %d", due, test.due)
			}
		})
	}
}

func TestWatchdogTellsWhatIsLacking(t *testing.T) {
	const s = boottime.Instant(time.Second)
	d := lifeline.Deadline{Term: 10 * s, Kill: 15 * s, End: 16 * s}
	tests := []struct {
		do   func(w *watchdog)
		now  boottime.Instant
		want string
	}{
		{func(*watchdog) {}, d.Term, notStarted},
		{func(w *watchdog) { w.ack(1); w.extend(d, 2*s) }, d.Term, "did not answer in time"},
		{func(w *watchdog) { w.ack(1) }, d.Kill, "did not kill in time"},
		{func(w *watchdog) { w.ack(1); w.askKill(3*s, true) }, 4 * s, "did not kill in time"},
		{func(w *watchdog) { w.askKill(3*s, true); w.heard(4*s, true) }, 6 * s, "fell silent while it killed"},
	}
	for _, test := range tests {
		w := new(watchdog)
		w.start(d, s)
		test.do(w)
		if got := w.lack(test.now); got != test.want {
			t.Errorf("it %q, want %q", got, test.want)
		}
	}
}

// TestWatchdogKillsBesideTheGuardian: from a moment on that no sign of life moves, so that as much is left of the time before the end
// wherever the guardian is stopped.
func TestWatchdogKillsBesideTheGuardian(t *testing.T) {
	const s = boottime.Instant(time.Second)
	d := lifeline.Deadline{Term: 10 * s, Kill: 15 * s, End: 16 * s}
	for name, test := range map[string]struct {
		do func(w *watchdog)
		at boottime.Instant
	}{
		"at the deadline":       {func(*watchdog) {}, d.Kill},
		"the lease is lost":     {func(w *watchdog) { w.askKill(12*s, true) }, 12 * s},
		"asked under our lease": {func(w *watchdog) { w.askKill(12*s, false) }, d.Kill},
	} {
		w := new(watchdog)
		w.start(d, s)
		w.ack(1)
		w.heard(12*s, true)
		test.do(w)
		urgent := test.at.Add(graceToAnswer)
		for now := 12 * s; now < 17*s; now += s / 20 { // it says so all the time
			w.heard(now, true)
			want := fine
			if now >= urgent {
				want = beside
			}
			if v, again := w.look(now); v != want || again <= now || v == fine && again > urgent {
				t.Errorf("%s: %d at %d, and again at %d; want %d", name, v, now, again, want)
			}
		}
	}
}

func TestWatchdogLooksTwice(t *testing.T) {
	w := new(watchdog)
	const s = boottime.Instant(time.Second)
	w.start(lifeline.Deadline{Term: 100 * s, Kill: 200 * s, End: 300 * s}, s)
	if v, again := w.look(99 * s); v != fine || again != 100*s {
		t.Error("early:", v, again)
	}
	// This process may have been stopped itself: what has arrived meanwhile is read first.
	now := boottime.Instant(time.Hour)
	v, again := w.look(now)
	if v != fine || again != now.Add(secondLook) {
		t.Error("at first:", v, again)
	}
	if v, _ := w.look(again); v != lost {
		t.Error("not lost")
	}
	w.extend(lifeline.Deadline{Term: 2 * now, Kill: 2 * now, End: 2 * now}, now)
	w.ack(2)
	if v, _ := w.look(again); v != fine || w.suspect != 0 {
		t.Error("lost although it answered")
	}
}
