package zookeeper

import (
	"context"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
)

// page is how many nodes are looked at with one packet.
const page = 500

// Inspect implements backends.Inspector.
func (d *Driver) Inspect(ctx context.Context, job string) (status backends.Status, err error) {
	err = d.briefly(func(s *session) error {
		status, err = s.inspect(ctx, job)
		return err
	})
	if err != nil {
		return backends.Status{}, backends.About("inspect", job, err)
	}
	return status, nil
}

func (s *session) inspect(ctx context.Context, job string) (backends.Status, error) {
	now, err := s.read(ctx, job)
	switch {
	case err != nil:
		return backends.Status{}, err
	case now.foreign != nil:
		return backends.Status{}, now.foreign
	case !now.held && now.record.Job == "":
		return backends.Status{}, backends.ErrUnknownJob
	}
	return backends.StatusOf(now.view(0), job), nil
}

// Jobs implements backends.Inspector.
func (d *Driver) Jobs(ctx context.Context) (jobs []string, err error) {
	err = d.briefly(func(s *session) error {
		jobs, err = s.jobs(ctx)
		return err
	})
	if err != nil {
		return nil, backends.About("list jobs of", d.cfg.dir, err)
	}
	slices.Sort(jobs)
	return jobs, nil
}

// jobs lists the nodes, and leaves out those that are empty: a longer prefix has its own below this one.
func (s *session) jobs(ctx context.Context) ([]string, error) {
	dir := s.d.cfg.dir
	synced, list := wire.NewCall(wire.Sync(dir)), wire.NewCall(wire.GetChildren(dir))
	if err := s.do(ctx, synced, list); err != nil {
		return nil, err
	}
	if wire.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, s.d.classify(list.Err)
	}
	var jobs []string
	for names := range slices.Chunk(list.Children, page) {
		var calls []*wire.Call
		for _, name := range names {
			calls = append(calls, wire.NewCall(wire.Exists(dir+"/"+name, false)))
		}
		if err := s.do(ctx, calls...); err != nil {
			return nil, err
		}
		for i, call := range calls {
			if job, ok := jobOf(names[i]); ok && call.Err == nil && call.Stat.DataLength > 0 {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs, nil
}
