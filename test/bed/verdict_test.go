package bed

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// rule is a scene that differs from the good one, and what Judge has to say of it.
type rule struct {
	name    string
	change  func(*scene)
	broken  []string // numbers of invariants
	says    string   // in the text of a violation
	excused int      // overlaps
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := good()
			r.change(s)
			report := Judge(s.Log)
			var broken, texts []string
			for _, v := range report.Violations {
				broken, texts = append(broken, v.Invariant), append(texts, v.String())
			}
			slices.Sort(broken)
			if !slices.Equal(broken, r.broken) {
				t.Errorf("broken: %q, want %q\n%s", broken, r.broken, strings.Join(texts, ""))
			}
			if !strings.Contains(strings.Join(texts, ""), r.says) {
				t.Errorf("nothing says %q:\n%s", r.says, strings.Join(texts, ""))
			}
			if report.Overlaps.Excused != r.excused {
				t.Errorf("%d overlaps are excused, want %d", report.Overlaps.Excused, r.excused)
			}
		})
	}
}

// A rule that is never seen broken may be one that cannot be.
func TestEachInvariantIsSeenBroken(t *testing.T) {
	t.Parallel()
	all := rules()
	for _, i := range invariants() {
		seen := slices.ContainsFunc(all, func(r rule) bool {
			s := good()
			r.change(s)
			return len(i.broken(newTrial(s.Log))) > 0
		})
		if !seen {
			t.Errorf("no scene breaks one of %s", i.number)
		}
	}
}

func rules() []rule {
	return slices.Concat(
		[]rule{{name: "all is well", change: func(*scene) {}}},
		bedRules(), overlapRules(), hostExcuses(), storeExcuses(), tokenRules(), slotRules(), sharedRules(), shardRules(), skipRules(), rerunRules(), deathRules(), takeoverRules(), endRules(),
	)
}

func bedRules() []rule {
	return []rule{
		{name: "nothing was started", change: func(s *scene) {
			s.Spans, s.Ends = nil, nil
		}, broken: []string{"I0"}, says: "no wrapper was started"},
		{name: "a job never ran", change: func(s *scene) {
			s.Spans = slices.DeleteFunc(s.Spans, func(s Span) bool { return s.Job == JobSkip })
		}, broken: []string{"I0"}, says: "skip never ran"},
		{name: "a run of a wrapper that nobody knows", change: func(s *scene) {
			s.span("s2", beats.RoleMain).Wrapper = 1
		}, broken: []string{"I0"}, says: "nobody knows a wrapper 1 on b"},
		{name: "the pid of a wrapper comes back", change: func(s *scene) {
			s.end("s2").Began = sec(4.05)
		}, broken: []string{"I0"}, says: "nobody knows"},
		{name: "a run begins as its wrapper is killed", change: func(s *scene) {
			e := s.end("w2")
			e.Ended = s.span("w2", beats.RoleMain).First.Add(-2 * time.Millisecond)
			s.Faults[0].Struck = e.Ended
			for _, role := range []beats.Role{beats.RoleMain, beats.RoleChild, beats.RoleOrphan} {
				s.lives("w2", role, 35)
			}
		}},
		{name: "a run begins long after its wrapper was killed", change: func(s *scene) {
			s.end("w2").Ended = s.span("w2", beats.RoleMain).First.Add(-s.TTL - time.Millisecond)
			s.end("w2").Began = sec(1)
			s.Faults = nil
		}, broken: []string{"I0"}, says: "nobody knows"},
	}
}

func overlapRules() []rule {
	return []rule{
		{name: "the main process lives on", change: func(s *scene) {
			s.lives("w1", beats.RoleMain, 31)
		}, broken: []string{"I1", "I7"}, says: "two runs of worker at once from 30100 ms to 31000 ms: w2 (token 102) began on b while w1 (token 101) lived on a\n"},
		{name: "only an orphan lives on", change: func(s *scene) {
			s.lives("w1", beats.RoleOrphan, 30.2)
		}, broken: []string{"I1"}, says: "orphan 113 until 30200 ms"},
		{name: "the last beat is the other's first", change: func(s *scene) {
			s.lives("w1", beats.RoleChild, 30.1)
		}, broken: []string{"I1"}, says: "from 30100 ms to 30100 ms"},
		{name: "between two processes of a run is the run", change: func(s *scene) {
			s.lives("w1", beats.RoleMain, 10)
			s.lives("w1", beats.RoleChild, 10)
			orphan := s.span("w1", beats.RoleOrphan)
			orphan.First, orphan.Last = sec(31), sec(32)
		}, broken: []string{"I1"}, says: "from 30100 ms to 32000 ms"},
		{name: "an orphan overlaps with all that come", change: func(s *scene) {
			s.lives("w1", beats.RoleOrphan, 100)
		}, broken: []string{"I1"}, says: "and with 1 later ones"},
		{name: "the ledger that compares tokens took something stale", change: func(s *scene) {
			s.Ledgers[JobSkip] = Ledger{Writes: 20, StaleFenced: 2}
		}, broken: []string{"I1'"}, says: "the fenced ledger of skip accepted 2 writes"},
		{name: "the ledger that takes everything may", change: func(s *scene) {
			s.Ledgers[JobSkip] = Ledger{Writes: 20, StaleUnfenced: 2, Refused: 2}
		}},
	}
}

// survivor lets an orphan of the first run live until an instant.
func (s *scene) survivor(last float64) { s.lives("w1", beats.RoleOrphan, last) }

func hostExcuses() []rule {
	deaf := Blow{Fault: "wrapper and guardian killed", Excused: true, Where: "a", Run: "w1", Struck: sec(28)}
	frozen := Blow{Fault: "host frozen", Excused: true, Where: "a", Run: "w1", Struck: sec(28), Mended: sec(33)}
	late := func(s *scene) { // its claim was granted before the host froze
		s.worker("late", "a", 101, 33.1, 33.2).code(75)
		s.Spans = slices.DeleteFunc(s.Spans, func(s Span) bool { return s.Run == "w1" })
		s.end("late").Began = sec(20)
	}
	with := func(b Blow, change func(*Blow), last float64) func(*scene) {
		change(&b)
		return func(s *scene) { s.blow(b); s.survivor(last) }
	}
	as := func(*Blow) {}
	return []rule{
		{name: "nobody was left to end it", change: with(deaf, as, 100), excused: 2},
		{name: "a blow that is not excused", change: with(deaf, func(b *Blow) { b.Excused = false }, 31), broken: []string{"I1"}},
		{name: "a blow two TTLs ago", change: with(deaf, func(b *Blow) { b.Where, b.Run, b.Struck = "c", "", sec(10.1) }, 31), broken: []string{"I1"}, says: "blow:  wrapper and guardian killed of c"},
		{name: "a blow on its wrapper", change: with(deaf, func(b *Blow) { b.Run, b.Wrapper = "", 110 }, 31), excused: 1},
		{name: "a blow on the whole host", change: with(deaf, func(b *Blow) { b.Run, b.Whole = "", true }, 31), excused: 1},
		{name: "a blow after the overlap began", change: with(deaf, func(b *Blow) { b.Struck = sec(30.5) }, 31), broken: []string{"I1"}},
		{name: "a host that thawed", change: with(frozen, as, 33.1), excused: 1},
		{name: "a host that thawed more than a TTL ago", change: with(frozen, as, 43.1), broken: []string{"I1"}, says: "blow:  host frozen of a at 28000 ms, mended at 33000 ms, excused"},
		{name: "frozen between claim and start", change: func(s *scene) {
			late(s)
			b := frozen
			b.Run, b.Whole = "", true
			s.blow(b)
		}, excused: 1},
	}
}

func storeExcuses() []rule {
	emptied := Blow{Fault: "store emptied", Excused: true, Where: "server", Struck: sec(28)}
	with := func(change func(*Blow), last float64) func(*scene) {
		return func(s *scene) {
			b := emptied
			change(&b)
			s.blow(b)
			s.survivor(last)
		}
	}
	return []rule{
		{name: "a store that was emptied", change: with(func(*Blow) {}, 38), excused: 1},
		{name: "a store that was emptied, and one that is renewed", change: with(func(*Blow) {}, 40.2), broken: []string{"I1"}},
		{name: "two TTLs after the store was emptied", change: with(func(b *Blow) { b.Struck = sec(10.1) }, 38), excused: 1},
		{name: "a store that is emptied later", change: with(func(b *Blow) { b.Struck = sec(30.2) }, 38), broken: []string{"I1"}},
		{name: "while a clock is wrong", change: with(func(b *Blow) { b.Mended = sec(35) }, 44), excused: 1},
		{name: "a store whose keys were not lost", change: with(func(b *Blow) { b.Excused = false }, 31), broken: []string{"I1"}},
	}
}

func tokenRules() []rule {
	back := Blow{Fault: "backup of last week, clock too", Where: "server", Struck: sec(29), Mended: sec(29.5), Back: true}
	token := func(id string, token int64) func(*scene) {
		return func(s *scene) {
			for i := range s.Spans {
				if s.Spans[i].Run == id {
					s.Spans[i].Token = token
				}
			}
		}
	}
	turned := func(s *scene) {
		token("w1", 102)(s)
		token("w2", 101)(s)
		s.blow(Blow{Fault: "store emptied", Excused: true, Where: "server", Struck: sec(28)})
	}
	return []rule{
		{name: "a token twice", change: token("w2", 101), broken: []string{"I2"}, says: "two runs of worker have the token 101"},
		{name: "a token that is lower", change: token("w3", 50), broken: []string{"I2"}, says: "the token 50 of worker is below 102"},
		{name: "a token twice, of a clock that went back", change: func(s *scene) { token("w2", 101)(s); s.blow(back) }},
		{name: "no token", change: token("w1", 0), broken: []string{"I2"}, says: "a run of worker has no token"},
		{name: "a clock that went back", change: func(s *scene) {
			token("w2", 50)(s)
			token("w3", 51)(s)
			s.blow(back)
		}},
		{name: "a clock that went back before", change: func(s *scene) {
			token("w3", 50)(s)
			s.blow(back)
		}, broken: []string{"I2"}},
		{name: "a store that forgot, with its clock right", change: func(s *scene) {
			token("w2", 50)(s)
			b := back
			b.Back, b.Forgets = false, true
			s.blow(b)
		}, broken: []string{"I2"}},
		{name: "two at once after a store was emptied, of which the later one began first", change: func(s *scene) {
			turned(s)
			s.survivor(38)
		}, excused: 1},
		{name: "one after the other after a store was emptied", change: turned, broken: []string{"I2"}},
		{name: "a run that was held up", change: func(s *scene) {
			token("w3", 50)(s)
			s.blow(Blow{Fault: "frozen", Excused: true, Where: "c", Wrapper: s.end("w3").PID, Struck: sec(25), Mended: sec(79)})
		}},
	}
}
