package bed

import (
	"math"
	"time"

	"github.com/leaderrun/leaderrun/test/witness/beats"
)

// scene is a log made by hand. It begins at 0 s, ends at 200 s, and its TTL is 10 s.
type scene struct {
	Log
	pids int
}

// sec is an instant of a scene.
func sec(s float64) instant {
	return instant(5000 * time.Second).Add(time.Duration(math.Round(s*1e6)) * time.Microsecond)
}

// good is a scene that keeps every promise: a run of the worker that ends by itself, one whose wrapper is killed, one that is
// alive at the end; two ticks of one job; a tick and another that needs two attempts of the other job.
func good() *scene {
	s := &scene{Log: Log{
		Store: "etcd", Way: ours, TTL: 10 * time.Second, Seed: 7, Began: sec(0), Ended: sec(200), Asked: 3 * time.Minute,
		Ledgers: map[string]Ledger{JobWorker: {Writes: 1000}, JobSkip: {Writes: 20}},
	}, pids: 100}
	s.worker("w1", "a", 101, 1, 30).over()
	s.worker("w2", "b", 102, 30.1, 60).killed()
	s.worker("w3", "c", 103, 80, 205)
	s.tick(JobSkip, "s1", "a", 201, 1000, 2, 2.1).over()
	s.tick(JobSkip, "s2", "b", 202, 1002, 4, 4.1).over()
	s.tick(JobRerun, "r1", "a", 301, 1000, 3, 3.7).over()
	s.tick(JobRerun, "r2", "b", 302, 1004, 7, 7.3).killed()
	s.tick(JobRerun, "r3", "c", 303, 1004, 20, 20.7).attempt(2).over()
	s.Faults = []Blow{{Fault: "wrapper killed", Where: "b", Struck: sec(55), Alone: true, Token: 102, Run: "w2", Wrapper: s.end("w2").PID, Kills: true}}
	return s
}

// part is a run in a scene.
type part struct {
	*scene
	id string
}

func (s *scene) worker(id, host string, token int64, first, last float64) part {
	return s.run(Span{Job: JobWorker, Run: id, Host: host, Token: token}, first, last, beats.RoleMain, beats.RoleChild, beats.RoleOrphan)
}

func (s *scene) tick(job, id, host string, token, tick int64, first, last float64) part {
	return s.run(Span{Job: job, Run: id, Host: host, Token: token, Tick: tick, Attempt: 1}, first, last, beats.RoleMain)
}

// run adds a run whose wrapper is alive at the end.
func (s *scene) run(of Span, first, last float64, roles ...beats.Role) part {
	s.pids += 10
	of.Wrapper, of.Began, of.First, of.Last, of.Beats = s.pids, sec(first), sec(first), sec(last), 100
	for i, role := range roles {
		of.Role, of.PID = role, s.pids+1+i
		s.Spans = append(s.Spans, of)
	}
	s.Ends = append(s.Ends, End{Job: of.Job, Host: of.Host, PID: s.pids, Began: of.First.Add(-time.Second)})
	return part{s, of.Run}
}

// over lets the command of a run come to its end by itself, and its wrapper say so.
func (p part) over() part {
	main := p.span(p.id, beats.RoleMain)
	main.Over = true
	return p.code(0)
}

func (p part) killed() part { return p.code(137) }

func (p part) code(code int) part {
	e := p.end(p.id)
	e.Code, e.Ended = code, p.span(p.id, beats.RoleMain).Last.Add(10*time.Millisecond)
	return p
}

func (p part) attempt(n int) part {
	p.span(p.id, beats.RoleMain).Attempt = n
	return p
}

// span returns a process of a run.
func (s *scene) span(id string, role beats.Role) *Span {
	for i := range s.Spans {
		if s.Spans[i].Run == id && s.Spans[i].Role == role {
			return &s.Spans[i]
		}
	}
	panic("no " + id)
}

// end returns the end of the wrapper of a run.
func (s *scene) end(id string) *End {
	for i := range s.Ends {
		if s.Ends[i].PID == s.span(id, beats.RoleMain).Wrapper {
			return &s.Ends[i]
		}
	}
	panic("no wrapper of " + id)
}

// blow adds one that hits a host, or with Where "server" the store.
func (s *scene) blow(b Blow) {
	b.OnServer = b.Where == "server"
	s.Faults = append(s.Faults, b)
}

// lives moves the last beat of a process.
func (s *scene) lives(id string, role beats.Role, last float64) { s.span(id, role).Last = sec(last) }
