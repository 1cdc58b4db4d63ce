package supervise

import (
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/boottime"
	"github.com/leaderrun/leaderrun/internal/lifeline"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/internal/supervise/guardian"
)

// calmAfter is how long little must happen before it is worth giving memory back.
const calmAfter = time.Second

// calmLater has memory given back in a while. A process with many runs needs it again too soon.
func (g *Guard) calmLater() {
	if !g.options.Detached {
		g.calmAt = boottime.Now().Add(calmAfter)
	}
}

// run reads what the guardian says and watches over it, until it is gone and reaped.
func (g *Guard) run() {
	defer close(g.over)
	defer g.timer.Stop()
	defer g.conn.Close()
	for {
		now := boottime.Now()
		g.mu.Lock()
		todo, again := g.watch.look(now)
		lack, closing := g.watch.lack(now), g.closing
		g.mu.Unlock()
		switch {
		case todo == lost:
			g.takeOver(lack)
			return
		case closing:
			g.dismiss()
			return
		case todo == beside:
			g.killBeside()
		}
		if g.calmAt != 0 && now >= g.calmAt {
			g.calmAt = 0
			panics.Go(giveBack)
		}
		if g.calmAt != 0 && (again == 0 || g.calmAt < again) {
			again = g.calmAt
		}
		if again != 0 {
			g.timer.Set(again)
		}
		select {
		case m, ok := <-g.inbox:
			if !ok {
				g.ended()
				return
			}
			g.handle(m)
		case <-g.poke:
		case <-g.timer.C():
		}
	}
}

// handle handles one message of the guardian.
func (g *Guard) handle(m guardian.Message) {
	now := boottime.Now()
	g.mu.Lock()
	g.watch.heard(now, m.Kind == guardian.Killing || m.Kind == guardian.Unconfirmed)
	switch m.Kind {
	case guardian.Ack:
		g.watch.ack(m.Number(0))
	case guardian.Exited:
		g.watch.status = m.Status()
	}
	g.mu.Unlock()
	switch m.Kind {
	case guardian.Started:
		g.heardStarted(m)
	case guardian.Stopped:
		g.terminal.Load().commandStopped(g, syscall.Signal(m.Number(0)))
	case guardian.Exited:
		g.terminal.Load().takeBack()
		g.events <- lifeline.Event{Kind: lifeline.Exited, Status: m.Status()}
	case guardian.Leftovers:
		g.events <- lifeline.Event{Kind: lifeline.Leftovers, Count: int(m.Number(0))}
	case guardian.Termed:
		g.events <- lifeline.Event{Kind: lifeline.Terminated}
	case guardian.Unconfirmed:
		g.events <- lifeline.Event{Kind: lifeline.Unconfirmed, Count: int(m.Number(0)), Tracer: int(m.Number(1))}
	case guardian.Dead:
		g.tellDead(m.Status())
	}
}

func (g *Guard) heardStarted(m guardian.Message) {
	pid := int(m.Number(0))
	g.mu.Lock()
	failed := g.failed
	if g.watch.ack(1); pid == 0 && !failed {
		g.watch = watchdog{} // Start may be called again
	}
	g.mu.Unlock()
	switch {
	case pid == 0 && failed:
		g.tellDead(lifeline.Status{})
		return
	case pid != 0:
		g.calmLater()
		g.terminal.Load().commandStarted(g, pid)
	}
	if !failed {
		g.answers <- m
	}
}

// tellDead tells the last event of the run. The guardian may stay a moment longer.
func (g *Guard) tellDead(s lifeline.Status) {
	g.terminal.Load().release()
	g.mu.Lock()
	g.watch.phase = dead
	g.mu.Unlock()
	g.events <- lifeline.Event{Kind: lifeline.Dead, Status: s}
	close(g.events)
}

// ended: the guardian closed the channel, which only its end does.
func (g *Guard) ended() {
	g.mu.Lock()
	is := g.watch.phase
	g.closing = g.closing || is == notBegun // nothing can be started any more
	g.mu.Unlock()
	if is.mayLive() {
		g.takeOver("died")
		return
	}
	close(g.answers)
	g.collect()
	if is == notBegun {
		close(g.events)
	}
}

// dismiss sees a guardian off that has nothing to guard. One whose run is dead has nothing to tell either.
func (g *Guard) dismiss() {
	g.mu.Lock()
	isDead := g.watch.phase == dead
	g.mu.Unlock()
	if isDead {
		g.ended()
		return
	}
	limit := boottime.Now().Add(silence)
	g.timer.Set(limit)
	for waiting := true; waiting; {
		select {
		case _, waiting = <-g.inbox:
		case <-g.timer.C():
			waiting = boottime.Now() < limit
		}
	}
	g.ended()
}
