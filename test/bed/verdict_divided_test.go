package bed

import (
	"slices"

	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// divided adds slots to a scene, with every promise kept: slot 0 changes hands when its wrapper is killed, slot 1 has had its
// higher token before that, and slot 2 is one that only one host believes in.
func (s *scene) divided() {
	s.slot("p1", "a", 0, 2, 401, 1, 58).killed()
	s.slot("p2", "b", 1, 2, 900, 2, 90).over()
	s.slot("p3", "c", 0, 2, 402, 70, 205)
	s.slot("p4", "a", 2, 3, 1, 80, 126).killed()
	s.Ledgers[JobSlots+"#0"] = Ledger{Writes: 300}
	s.blow(Blow{Fault: "wrapper killed", Where: "a", Struck: sec(58), Alone: true, Token: 401, Run: "p1", Wrapper: s.end("p1").PID, Kills: true})
	s.blow(Blow{Fault: "wrapper killed", Where: "a", Struck: sec(125), Alone: true, Token: 1, Run: "p4", Wrapper: s.end("p4").PID, Kills: true})
}

func (s *scene) slot(id, host string, part, parts int, token int64, first, last float64) part {
	return s.run(Span{Job: JobSlots, Part: part, Parts: parts, Run: id, Host: host, Token: token}, first, last, beats.RoleMain)
}

// withSlots is a change of a scene that has slots.
func withSlots(change func(*scene)) func(*scene) {
	return func(s *scene) {
		s.divided()
		change(s)
	}
}

// shares lets a run be of the wrapper of another one.
func (s *scene) shares(id, with string) {
	pid := s.end(id).PID
	s.Ends = slices.DeleteFunc(s.Ends, func(e End) bool { return e.PID == pid })
	for i := range s.Spans {
		if s.Spans[i].Run == id {
			s.Spans[i].Wrapper, s.Spans[i].Host = s.end(with).PID, s.end(with).Host
		}
	}
}

func slotRules() []rule {
	lives := func(id string, last float64) func(*scene) {
		return func(s *scene) { s.lives(id, beats.RoleMain, last) }
	}
	token := func(id string, token int64) func(*scene) {
		return func(s *scene) { s.span(id, beats.RoleMain).Token = token }
	}
	return []rule{
		{name: "slots, all is well", change: withSlots(func(*scene) {})},
		{name: "two in one slot", change: withSlots(lives("p1", 70)), broken: []string{"I1", "I5"}, says: "two runs of slots#0 at once from 70000 ms to 70000 ms: p3 (token 402) began on c while p1"},
		{name: "a token twice in a slot", change: withSlots(token("p3", 401)), broken: []string{"I2"}, says: "two runs of slots#0 have the token 401"},
		{name: "a token twice, in two slots", change: withSlots(token("p3", 900))},
		{name: "a token that goes back in a slot", change: withSlots(token("p3", 399)), broken: []string{"I2"}, says: "the token 399 of slots#0 is below 401"},
		{name: "the ledger of a slot took something stale", change: withSlots(func(s *scene) {
			s.Ledgers[JobSlots+"#0"] = Ledger{Writes: 300, StaleFenced: 1}
		}), broken: []string{"I1'"}, says: "the fenced ledger of slots#0 accepted 1 writes"},
		{name: "slots that never ran", change: withSlots(func(s *scene) {
			s.Spans = slices.DeleteFunc(s.Spans, func(s Span) bool { return s.Job == JobSlots })
		}), broken: []string{"I0"}, says: "slots never ran"},
		{name: "0 of a wrapper whose run in one of two slots was killed", change: withSlots(func(s *scene) {
			s.slot("p5", "b", 0, 2, 401, 60, 65)
			s.shares("p5", "p2")
		}), broken: []string{"I2", "I7"}, says: "ended with 0: its run did not come to its end"},
	}
}

// Two runs of one wrapper: what hits one of them, what hits both.
func sharedRules() []rule {
	two := func(change func(s *scene, b *Blow)) func(*scene) {
		return func(s *scene) {
			s.slot("q1", "a", 0, 2, 401, 1, 50)
			s.slot("q2", "a", 1, 2, 402, 1, 50)
			s.shares("q2", "q1")
			s.end("q1").Code, s.end("q1").Ended = 137, sec(50.01)
			s.slot("q3", "c", 0, 2, 501, 70, 205)
			s.slot("q4", "c", 1, 2, 502, 70, 205)
			b := Blow{Where: "a", Struck: sec(50), Alone: true, Token: 401, Run: "q1", Wrapper: s.end("q1").PID}
			change(s, &b)
			s.blow(b)
		}
	}
	killed := func(last float64) func(*scene, *Blow) {
		return func(s *scene, b *Blow) {
			b.Fault, b.Kills = "wrapper killed", true
			s.lives("q2", beats.RoleMain, last)
		}
	}
	orphaned := func(id string) func(*scene, *Blow) {
		return func(s *scene, b *Blow) {
			b.Fault, b.Excused, b.OneRun, b.Mended = "wrapper and guardian killed", true, true, sec(80)
			s.lives(id, beats.RoleMain, 75)
		}
	}
	return []rule{
		{name: "0 from workers that had given a shard up", change: func(s *scene) {
			s.shard(JobShards, "u1", "a", 0, 3, 401, 0, 1, 20)
			s.shard(JobShards, "u2", "a", 1, 3, 501, 0, 1, 30).over()
			s.shares("u1", "u2")
		}},
		{name: "a worker that could not go on after a run", change: func(s *scene) {
			s.shard(JobShards, "u1", "a", 0, 3, 401, 0, 1, 20).code(78)
		}},
		{name: "two runs end with their wrapper", change: two(killed(59.9))},
		{name: "one of two runs outlives its wrapper", change: two(killed(60.1)), broken: []string{"I5"}, says: "its run of slots#1 lived until 60100 ms"},
		{name: "one of two runs outlives its guardian", change: two(func(s *scene, b *Blow) {
			b.Fault, b.Kills, b.OneRun = "guardian killed", true, true
			s.lives("q2", beats.RoleMain, 65)
		})},
		{name: "both outlive their host", change: two(func(s *scene, b *Blow) {
			killed(65)(s, b)
			b.Run, b.Wrapper, b.Whole = "", 0, true
		}), broken: []string{"I5"}, says: "its run of slots#1"},
		{name: "nobody was left to end one of two", change: two(orphaned("q1")), excused: 1},
		{name: "nobody was left to end one of two, and the other lived on", change: two(orphaned("q2")), broken: []string{"I1"}, says: "two runs of slots#1"},
	}
}

// shards adds ticks with shards, with every promise kept: one of two shards under skip, run by one wrapper, and one under rerun, whose
// second shard is run again because its wrapper was killed.
func (s *scene) shards() {
	s.shard(JobShardsSkip, "k0", "a", 0, 2, 501, 1000, 120, 121).over()
	s.shard(JobShardsSkip, "k1", "a", 1, 2, 601, 1000, 121.1, 122).over()
	s.shares("k1", "k0")
	s.end("k0").Ended = sec(122.1)
	s.shard(JobShardsRerun, "n0", "a", 0, 2, 501, 1000, 120, 121).over()
	s.shard(JobShardsRerun, "n1", "b", 1, 2, 601, 1000, 120, 121).killed()
	s.shard(JobShardsRerun, "n2", "a", 1, 2, 602, 1000, 140, 141).attempt(2).over()
	s.shares("n2", "n0")
	s.end("n0").Ended = sec(141.1)
	s.blow(Blow{Fault: "wrapper killed", Where: "b", Struck: sec(121), Run: "n1", Wrapper: s.end("n1").PID, Kills: true})
}

func (s *scene) shard(job, id, host string, part, parts int, token, tick int64, first, last float64) part {
	return s.run(Span{Job: job, Part: part, Parts: parts, Run: id, Host: host, Token: token, Tick: tick, Attempt: 1}, first, last, beats.RoleMain)
}

func shardRules() []rule {
	with := func(change func(*scene)) func(*scene) {
		return func(s *scene) {
			s.shards()
			change(s)
		}
	}
	without := func(s *scene, id string) {
		s.Spans = slices.DeleteFunc(s.Spans, func(s Span) bool { return s.Run == id })
	}
	calm := func(s *scene) { s.Faults[len(s.Faults)-1].Struck = sec(90) }
	return []rule{
		{name: "shards, all is well", change: with(func(*scene) {})},
		{name: "a shard in two places", change: with(func(s *scene) {
			s.shard(JobShardsSkip, "k2", "c", 1, 2, 602, 1002, 121.5, 123).over()
			s.shard(JobShardsSkip, "k3", "c", 0, 2, 502, 1002, 121.5, 123).over()
			s.shares("k3", "k2")
		}), broken: []string{"I1", "I7"}, says: "two runs of shards-skip#1 at once"},
		{name: "a shard again under skip", change: with(func(s *scene) {
			s.shard(JobShardsSkip, "k2", "c", 1, 2, 602, 1000, 123, 124).code(76)
		}), broken: []string{"I3"}, says: "tick 1000 of shards-skip#1 ran again"},
		{name: "a tick that is divided in two ways", change: with(func(s *scene) {
			s.shard(JobShardsSkip, "k2", "c", 2, 3, 701, 1000, 123, 124).code(76)
		}), broken: []string{"I3"}, says: "tick 1000 of shards-skip is divided into 2, and into 3"},
		{name: "a tick that is divided in two ways, because the store forgot", change: with(func(s *scene) {
			s.shard(JobShardsSkip, "k2", "c", 2, 3, 701, 1000, 123, 124).code(76)
			s.blow(Blow{Fault: "store emptied", Where: "server", Struck: sec(122.5), Forgets: true})
		})},
		{name: "0 although a run was lost that nobody made up for", change: with(func(s *scene) {
			s.span("k1", beats.RoleMain).Over = false
		}), broken: []string{"I7"}, says: "its run of shards-skip#1 did not come to its end, and nobody had begun another"},
		{name: "0 although a run was lost, because another one made up for it", change: with(func(s *scene) {
			s.end("n1").Code, s.end("n1").Ended = 0, sec(141.2)
		})},
		{name: "0 before another one made up for a run that was lost", change: with(func(s *scene) {
			s.end("n1").Code, s.end("n1").Ended = 0, sec(121.2)
		}), broken: []string{"I7"}, says: "its run of shards-rerun#1 did not come to its end"},
		{name: "0 although a shard was never begun", change: with(func(s *scene) {
			calm(s)
			without(s, "n2")
			without(s, "n1")
		}), broken: []string{"I7"}, says: "nobody had begun shards-rerun#1 for tick 1000"},
		{name: "a shard again that was said to be done", change: with(func(s *scene) {
			s.shard(JobShardsRerun, "n3", "c", 1, 2, 603, 1000, 150, 151).attempt(3).over()
		}), broken: []string{"I3"}, says: "tick 1000 of shards-rerun#1 ran again although its wrapper had said that it was done"},
		{name: "a shard again whose end was not recorded, and 0 when all was done", change: with(func(s *scene) {
			s.shard(JobShardsRerun, "n3", "c", 0, 2, 503, 1000, 130, 131).attempt(2).over()
		})},
		{name: "the next tick after a wrapper that was killed", change: with(func(s *scene) {
			s.Spans = slices.DeleteFunc(s.Spans, func(s Span) bool { return s.Run == "n2" })
			s.shard(JobShardsRerun, "n3", "c", 1, 2, 603, 1008, 150, 151).over().code(76)
		}), broken: []string{"I3"}, says: "tick 1008 of shards-rerun#1 ran although tick 1000 was begun"},
	}
}
