package model

import (
	"fmt"
	"strconv"
)

func (m moment) String() string { return strconv.Itoa(int(m)) }

func (k requestKind) String() string {
	return [...]string{"", "claim", "renewal", "end", "abandon", "order"}[k]
}

func (o outcome) String() string { return [...]string{"", "done", "lost", "stopped"}[o] }

func (a answer) String() string {
	return [...]string{
		"", "granted", "held", "quarantined", "vanished", "abandoned", "done", "lost",
		"renewed", "renewed, and asked to stop", "recorded", "not yours",
	}[a]
}

func (k orderKind) String() string {
	return [...]string{"", "ask to stop", "take the lease away", "the holder is dead", "forget the job", "forget the tick"}[k]
}

func (f fault) String() string {
	return [...]string{
		"somebody deletes the lease", "somebody deletes the record", "somebody deletes lease and record",
		"somebody removes the lock file", "FLUSHALL", "the server restarts with its data", "the server restarts empty",
		"the server restarts with an old dump", "the server restarts with an old backup, in a new history",
		"somebody puts back an old copy", "failover to the replica",
		"partition: H1 and the old master on one side, the promoted replica and all others on the other",
		"a replica is attached", "the lease is evicted", "the record is evicted", "the mark is evicted",
		"another job is claimed", "the host crashes of", "wrapper and guardian are killed of", "",
	}[f]
}

func forWhat(o trigger) string {
	switch {
	case o == theKey:
		return " for the key"
	case o != 0:
		return " for tick " + strconv.Itoa(int(o))
	}
	return ""
}

// describe says what a store has answered.
func describe(q *request) string {
	if q.answer != isGranted {
		return q.answer.String()
	}
	text := fmt.Sprintf("granted token %d%s", q.token, forWhat(q.what))
	if q.attempt > 1 {
		text += fmt.Sprintf(", attempt %d", q.attempt)
	}
	return text
}
