package runner

import (
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// ledger is a store that takes the real decisions, in virtual time: several beds may share it.
type ledger struct {
	mu      sync.Mutex
	record  backends.Record
	lease   backends.Lease
	expires time.Time // of the lease
}

// view is what a claim finds. It needs l.mu.
func (l *ledger) view() backends.View {
	v := backends.View{Record: l.record, Now: time.Now(), Proof: backends.ByUntil}
	if left := time.Until(l.expires); left > 0 {
		lease := l.lease
		lease.Left = left
		v.Lease = &lease
	}
	return v
}

func (l *ledger) claim(c backends.Claim) (backends.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := backends.Decide(l.view(), c)
	l.record = d.Record
	if d.Refusal != nil {
		return backends.Grant{}, d.Refusal
	}
	l.lease = backends.Lease{Holder: c.Holder.ID, Token: d.Grant.Token}
	l.expires = time.Now().Add(d.Grant.TTL)
	return *d.Grant, nil
}

func (l *ledger) renew(g backends.Grant) (backends.RenewAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := backends.DecideRenew(l.view(), g)
	if r.Lost {
		return backends.RenewAnswer{}, backends.ErrLost
	}
	l.record, l.expires = r.Record, time.Now().Add(g.TTL)
	return r.Answer, nil
}

func (l *ledger) finish(g backends.Grant, o backends.Outcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end(backends.DecideFinish(l.view(), g, o))
}

func (l *ledger) abandon(c backends.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.end(backends.DecideAbandon(l.view(), c))
}

func (l *ledger) end(e backends.EndDecision) error {
	if e.Lost {
		return backends.ErrLost
	}
	l.record = e.Record
	if e.Release {
		l.expires = time.Time{}
	}
	return nil
}

// change changes the record as another host would.
func (l *ledger) change(f func(r *backends.Record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.record)
}
