package runner

import (
	"context"
	"fmt"

	"github.com/leaderrun/leaderrun/backends"
)

// replica is a copy of what the store holds: that of a replica which may be promoted, a dump, a snapshot of a disk, a backup. Until it
// stays as it is, it has all that the store has.
type replica struct {
	kept

	stays  bool
	unseen bool // it was attached, and nothing was written since
	writes int64
}

// theCopy returns what a replica has, or what was saved last.
func (w *orders) theCopy() kept {
	if w.copied.stays {
		return w.copied.kept
	}
	return w.store
}

// hasAcks says whether as many replicas have what was written as must.
func (w *orders) hasAcks(k *kept) bool {
	connected := k.server.Replicas
	needed := k.mark.Replicas
	if w.e.out.connectedOnly {
		needed = connected
	}
	switch {
	case !w.e.acks || needed == 0:
		return true
	case w.split && k == &w.old: // the others are with the new master
		return connected >= needed
	}
	return connected > 0 && !w.copied.stays
}

// serverChanges has another server answer, or one that holds something else.
func (w *orders) serverChanges(what moveKind) {
	k := &w.store
	was := k.server
	switch what {
	case stays:
		w.copied = replica{kept: *k, stays: true, unseen: w.copied.unseen, writes: w.writes}
		return
	case catchesUp:
		w.copied = replica{unseen: w.copied.unseen}
		w.acknowledges(nil)
		return
	case attached:
		k.server.Replicas++
		w.copied = replica{unseen: true}
		return
	case otherJob:
		next, _ := w.e.admit(k, serverTime(w.now), w.e.other.Milliseconds())
		if next != k.mark {
			k.mark, k.marked = next, w.draw()
		}
		return
	case putBack:
		*k = w.theCopy()
		k.written, k.leased, k.beat = w.draw(), w.draw(), w.draw()
		w.forgets()
		return
	case parted:
		w.split, w.old = true, *k
		w.old.server.Replicas = w.e.isolated
	case restartedEmpty:
		*k = kept{}
	}
	w.acknowledges(context.Canceled) // the connections are gone
	if what != restarted && what != restartedEmpty {
		*k = w.theCopy()
	}
	if what == restoredOld && w.e.out.countsAnew {
		w.writes = w.copied.writes
	}
	k.server = w.successor(was, what)
	w.copied = replica{}
	if what == restartedEmpty || what == restartedOld || what == restoredOld {
		w.forgets()
	}
	w.tellWatchers(nil)
}

// successor is what a server says of itself that takes the place of another one: its process, and its history.
func (w *orders) successor(was backends.Server, what moveKind) backends.Server {
	var process, history int
	if _, err := fmt.Sscanf(was.Identity, "%d:%d", &process, &history); err != nil {
		panic(err)
	}
	is := backends.Server{Replicas: was.Replicas, Started: serverTime(w.now)}
	switch what {
	case promoted, parted: // and back
		process, history, is.Forgot, is.Started = 3-process, history+1, true, was.Started
		if what == parted {
			is.Replicas -= min(is.Replicas, 1+w.e.isolated)
		}
	case restoredOld:
		process, history, is.Forgot = process+2, history+1, true
	default:
		if !w.e.out.startUnseen {
			process += 2
		}
	}
	is.Identity = fmt.Sprintf("%d:%d", process, history)
	return is
}
