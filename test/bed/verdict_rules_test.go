package bed

import (
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/test/witness/beats"
)

func skipRules() []rule {
	tick := func(tick int64) func(*scene) {
		return func(s *scene) { s.span("s2", beats.RoleMain).Tick = tick }
	}
	forgets := Blow{Fault: "store emptied", Where: "server", Struck: sec(3), Forgets: true}
	return []rule{
		{name: "a tick again", change: tick(1000), broken: []string{"I3"}, says: "tick 1000 of skip ran again"},
		{name: "a tick that went back", change: tick(998), broken: []string{"I3"}, says: "tick 998 of skip ran after tick 1000"},
		{name: "a tick again after a store forgot", change: func(s *scene) { tick(1000)(s); s.blow(forgets) }},
		{name: "a tick again, claimed before a store forgot and begun after it", change: func(s *scene) {
			tick(1000)(s)
			b := forgets
			b.Struck = s.span("s1", beats.RoleMain).First.Add(-100 * time.Millisecond)
			s.blow(b)
		}},
	}
}

func rerunRules() []rule {
	change := func(id string, change func(*Span)) func(*scene) {
		return func(s *scene) { change(s.span(id, beats.RoleMain)) }
	}
	unfinished := func(s *scene) {
		s.span("r3", beats.RoleMain).Over = false
		s.end("r3").Code = 75
	}
	forgets := Blow{Fault: "store emptied", Where: "server", Struck: sec(25), Forgets: true}
	return []rule{
		{name: "a tick again that was said to be done", change: func(s *scene) {
			s.span("r2", beats.RoleMain).Over, s.end("r2").Code = true, 0
		}, broken: []string{"I3"}, says: "ran again although its wrapper had said that it was done"},
		{name: "a tick again whose end was not recorded", change: func(s *scene) {
			s.span("r2", beats.RoleMain).Over, s.end("r2").Code = true, 75
		}},
		{name: "an attempt without a higher number", change: change("r3", func(s *Span) { s.Attempt = 1 }), broken: []string{"I3"}, says: "attempt 1 of tick 1004 of rerun came after attempt 1"},
		{name: "a tick of rerun that went back", change: change("r3", func(s *Span) { s.Tick = 996 }), broken: []string{"I3"}, says: "tick 996 of rerun ran after tick 1004"},
		{name: "a tick that is left for the next", change: change("r3", func(s *Span) { s.Tick = 1008 }), broken: []string{"I3"}, says: "tick 1008 of rerun ran although tick 1004 was begun"},
		{name: "a tick that is left for the next when the store forgot", change: func(s *scene) {
			change("r3", func(s *Span) { s.Tick, s.Attempt = 1008, 1 })(s)
			b := forgets
			b.Struck = sec(15)
			s.blow(b)
		}},
		{name: "a tick that nobody brings to its end", change: unfinished, broken: []string{"I3"}, says: "tick 1004 of rerun was begun and nobody brought it to its end until 200000 ms; nobody came for it"},
		{name: "a tick that nobody can bring to its end yet", change: func(s *scene) {
			unfinished(s)
			s.blow(Blow{Fault: "server stopped", Where: "server", Struck: sec(100), Mended: sec(151)})
		}},
		{name: "a tick that a store forgot", change: func(s *scene) { unfinished(s); s.blow(forgets) }},
	}
}

func deathRules() []rule {
	return []rule{
		{name: "silent just in time", change: func(s *scene) { s.lives("w2", beats.RoleOrphan, 65) }},
		{name: "an orphan beats after its time", change: func(s *scene) {
			s.lives("w2", beats.RoleOrphan, 65.1)
		}, broken: []string{"I5"}, says: "wrapper killed struck b at 55000 ms, and its run of worker lived until 65100 ms, longer than the TTL of 10s"},
		{name: "mended before a TTL had passed", change: func(s *scene) {
			s.lives("w2", beats.RoleOrphan, 79)
			s.Faults[0].Mended = sec(64.9)
		}},
		{name: "mended when a TTL had passed", change: func(s *scene) {
			s.lives("w2", beats.RoleOrphan, 79)
			s.Faults[0].Mended = sec(65)
		}, broken: []string{"I5"}},
		{name: "nobody was left to kill", change: func(s *scene) {
			s.lives("w2", beats.RoleOrphan, 79)
			s.Faults[0].Excused = true
		}},
	}
}

func takeoverRules() []rule {
	gone := func(s *scene) {
		s.Spans = slices.DeleteFunc(s.Spans, func(s Span) bool { return s.Run == "w3" })
	}
	late := func(s *scene) {
		for i := range s.Spans {
			if s.Spans[i].Run == "w3" {
				s.Spans[i].First = sec(115.1)
			}
		}
	}
	return []rule{
		{name: "the next run is late", change: late, broken: []string{"I6"}, says: "the next run of worker began at 115100 ms, later than 1m0s after all was mended"},
		{name: "there is no next run", change: gone, broken: []string{"I6"}, says: "nobody ran worker until 200000 ms"},
		{name: "there is no next run yet", change: func(s *scene) { gone(s); s.Ended = sec(114) }},
		{name: "the next run is late, of a blow that was mended late", change: func(s *scene) { late(s); s.Faults[0].Mended = sec(60) }},
		{name: "the next run is late in a quarantine", change: func(s *scene) {
			late(s)
			s.Quarantine, s.Faults[0].OnServer, s.Faults[0].Where = time.Second, true, "server"
		}},
		{name: "a quarantine after a blow on a host", change: func(s *scene) { late(s); s.Quarantine = time.Second }, broken: []string{"I6"}},
		{name: "another blow went on", change: func(s *scene) { late(s); s.Faults[0].Alone = false }},
		{name: "another blow came between", change: func(s *scene) { late(s); s.blow(Blow{Fault: "host cut off", Where: "c", Struck: sec(90)}) }},
		{name: "a run that bore the blow", change: func(s *scene) {
			gone(s)
			s.Faults[0].Mended = sec(55.1)
			s.lives("w2", beats.RoleMain, 80)
		}},
		{name: "a run that came to its end all the same", change: func(s *scene) { gone(s); part{s, "w2"}.over() }},
	}
}

func endRules() []rule {
	code := func(id string, code int) func(*scene) {
		return func(s *scene) { s.end(id).Code = code }
	}
	return []rule{
		{name: "0 of a run that was killed", change: code("w2", 0), broken: []string{"I7"}, says: "wrapper 120 of worker on b ended with 0: its run did not come to its end"},
		{name: "0 of a run that another one followed", change: func(s *scene) {
			s.lives("w1", beats.RoleMain, 30.15)
		}, broken: []string{"I1", "I7"}, says: "a run with the greater token 102 had begun on b at 30100 ms"},
		{name: "75 of a run that came to its end", change: code("w1", 75)},
		{name: "a signal", change: code("w1", 143)},
		{name: "no signal", change: code("w1", 128), broken: []string{"I7"}, says: "no such code is documented"},
		{name: "a code that nobody knows", change: code("w2", 2), broken: []string{"I7"}, says: "no such code is documented"},
		{name: "76 of one that ran", change: code("s1", 76), broken: []string{"I7"}, says: "that says that COMMAND did not run, and it did"},
		{name: "76 of one that did not", change: func(s *scene) {
			s.Ends = append(s.Ends, End{Job: JobSkip, Host: "c", PID: 5, Began: sec(2), Ended: sec(3), Code: 76})
		}},
		{name: "76 of one that made up for an earlier tick", change: code("r3", 76)},
		{name: "0 of one that made up for an earlier tick, and lost its own", change: func(s *scene) {
			s.tick(JobRerun, "r4", "c", 304, 1008, 25, 25.5)
			s.end("r3").Ended = sec(26)
			s.Ends = slices.DeleteFunc(s.Ends, func(e End) bool { return e.PID == s.span("r4", beats.RoleMain).Wrapper })
			s.span("r4", beats.RoleMain).Wrapper = s.span("r3", beats.RoleMain).Wrapper
		}, broken: []string{"I3", "I7"}, says: "its run did not come to its end"},
		{name: "76 of one that ran its own tick", change: func(s *scene) {
			code("r3", 76)(s)
			s.end("r3").Tick = 1004
		}, broken: []string{"I7"}},
		{name: "a fault of its own", change: func(s *scene) {
			code("w1", 70)(s)
			s.end("w1").Said = "a line that was cut\nit does not answer\nit does not answer\nand this is why\n"
		}, broken: []string{"I7"}, says: "no blow hit it: and this is why < it does not answer < a line that was cut"},
		{name: "a guardian that was killed", change: func(s *scene) {
			code("w1", 70)(s)
			s.blow(Blow{Fault: "guardian killed", Where: "a", Run: "w1", Wrapper: s.end("w1").PID, Struck: sec(29)})
		}},
		{name: "it fell", change: func(s *scene) { s.end("w2").Said = "panic: no such thing" }, broken: []string{"I7"}, says: "it fell: panic: no such thing"},
		{name: "0 for a tick that nobody ran", change: func(s *scene) {
			s.Ends = append(s.Ends, End{Job: JobRerun, Host: "c", PID: 5, Began: sec(2), Ended: sec(3), Tick: 996})
		}, broken: []string{"I7"}, says: "no run of tick 996 came to its end"},
		{name: "0 for a tick that another one ran", change: func(s *scene) {
			s.Ends = append(s.Ends, End{Job: JobRerun, Host: "c", PID: 5, Began: sec(2), Ended: sec(3), Tick: 1000})
		}},
	}
}
