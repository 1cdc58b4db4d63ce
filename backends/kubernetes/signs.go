package kubernetes

import (
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// signs remembers when the beat of a job was last seen to go on. Whose clock is wrong by more than a TTL would otherwise
// be taken for dead as often as somebody looks, and a wait for its silence has no end.
type signs struct {
	mu   sync.Mutex
	jobs map[string]sign
}

// sign is what was last seen of a job's holder.
type sign struct {
	token, beat int64
	went        time.Time // when the beat went on; zero: it was seen once
}

// lives notes what was read, and says whether the holder has given a sign of life within its TTL.
func (s *signs) lives(job string, r *backends.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, last := time.Now(), s.jobs[job]
	switch {
	case last.token != r.Token:
		last = sign{token: r.Token, beat: r.Beat}
	case r.Beat > last.beat: // a watch may be behind
		last.beat, last.went = r.Beat, now
	}
	if s.jobs == nil {
		s.jobs = map[string]sign{}
	}
	s.jobs[job] = last
	return !last.went.IsZero() && now.Sub(last.went) < time.Duration(r.TTL)*time.Millisecond
}
