package zookeeper

import (
	"context"
	"slices"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
)

// page is how many nodes are looked at with one packet.
const page = 500

// List implements backends.Store.
func (s *store) List(ctx context.Context) ([]string, error) {
	t := s.begin(backends.Request{Op: backends.ToInspect})
	jobs, err := t.session.jobs(ctx)
	if t.movesOn(ctx, err) {
		jobs, err = t.session.jobs(ctx)
	}
	t.End(ctx, err)
	return jobs, err
}

// jobs lists the nodes, and leaves out those that are empty: a longer prefix has its own below this one.
func (s *session) jobs(ctx context.Context) (jobs []string, err error) {
	dir := s.store.cfg.dir
	synced, list := wire.NewCall(wire.Sync(dir)), wire.NewCall(wire.GetChildren(dir))
	if err := s.do(ctx, synced, list); err != nil {
		return nil, err
	}
	if list.Err != nil && !wire.Is(list.Err, wire.NoNode) {
		return nil, s.store.classify(list.Err)
	}
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
