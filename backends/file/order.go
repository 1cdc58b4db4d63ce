package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/backends"
)

// Order implements backends.Operator. A request to stop is written into the record, where the holder's next renewal
// finds it, or its watch. The lock itself nobody can take from the processes that have it.
func (d *Driver) Order(ctx context.Context, o backends.Order) error {
	_, err := inTime(ctx, d.life, func(ctx context.Context) (struct{}, error) {
		p := d.paths(o.Job)
		if !p.known() {
			return struct{}{}, backends.ErrUnknownJob
		}
		s, err := d.begin(ctx, o.Job)
		if err != nil {
			return struct{}{}, err
		}
		defer s.end()
		return struct{}{}, s.obey(o)
	})
	return err
}

// known says whether there is anything of a job.
func (p paths) known() bool {
	_, err := os.Lstat(p.lock)
	return p.exists() || !errors.Is(err, fs.ErrNotExist)
}

func (s *step) obey(o backends.Order) error {
	l, err := s.probe()
	if err != nil {
		return err
	}
	l = s.ofRun(l)
	answer := backends.DecideOrder(s.view(l, s.proof(s.readOwnerAt(s.lock))), o)
	if !answer.Changed {
		return answer.Err
	}
	if answer.Release {
		return misconfigured(fmt.Errorf("the lock of job %q is held, and only the end of the processes that hold it frees it", o.Job),
			"end them: they are on this host, and all have the file "+s.lock+" open")
	}
	return s.save(s.record, answer.Record)
}

// Holders implements backends.LocalHolder, on Linux. It sees the processes of this user, or as root all. Root is let into another
// user's directory by ?trust=shared only.
func (d *Driver) Holders(job string) ([]int, error) {
	const patience = 5 * time.Second // for those who look at the lock for a moment
	p := d.paths(job)
	if !p.known() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := d.begin(ctx, job)
	if err != nil {
		return nil, err
	}
	defer s.end()
	l, err := s.probe()
	if err != nil || s.ofRun(l) == nil {
		return nil, err
	}
	pids, hidden, err := lockHolders(s.record.Holder.PID, s.lock, s.tree)
	switch {
	case err != nil:
		return nil, fmt.Errorf("who holds the lock %s: %w", s.lock, err)
	case len(pids) == 0 && hidden:
		return nil, misconfigured(fmt.Errorf("the lock %s is held by processes of another user", s.lock), "run as that user, or as root with ?"+trustShared)
	}
	return pids, nil
}
