package main

// The measures of the daemon: a value a tick, and each for a number of jobs.
const (
	lateMedian = "late"
	lateMost   = "late p99"
	lateMax    = "late max"
	runsSeen   = "runs"  // that began
	runsTwice  = "twice" // runs of a job that had run

	daemonFresh       = "daemon memory before"
	daemonMemory      = "daemon memory after"
	daemonCPU         = "daemon cpu"      // while nothing is due
	daemonRequests    = "daemon requests" // while nothing is due
	daemonConnections = "daemon connections"
	tickConnections   = "tick connections"
	runScripts        = "run scripts"
	runCPU            = "run cpu"

	guardianMemory = "guardian memory" // of each
)

// note notes what came of a tick.
func (t *turn) note(r *report, w cronWay, jobs int) {
	way := way{name: w.name, peer: cronPeer}
	if w.name == cronPeer {
		way.peer = ""
	}
	add := func(name, unit string, v float64) { r.add(name, jobs, unit, way, v) }
	add(runsSeen, "", float64(len(t.late)))
	add(runsTwice, "", float64(t.twice))
	if len(t.late) > 0 {
		add(lateMedian, "ms", percentile(t.late, 50))
		add(lateMost, "ms", percentile(t.late, 99))
		add(lateMax, "ms", percentile(t.late, 100))
	}
	add(daemonFresh, "MB", t.fresh.memory)
	add(daemonMemory, "MB", t.idle.memory)
	add(daemonCPU, "ms", ms(t.idle.cpu))
	if w.redis != nil {
		add(daemonRequests, "", float64(max(t.fresh.requests, t.idle.requests)))
		add(daemonConnections, "", float64(t.idle.connections))
		add(tickConnections, "", float64(t.connections))
		add(runScripts, "", float64(t.scripts)/float64(jobs))
	}
	if jobs >= enoughForCPU {
		add(runCPU, "ms", ms(t.cpu)/float64(jobs))
	}
}
