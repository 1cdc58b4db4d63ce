package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	page     = 1000    // keys are listed with one request
	mostList = 8 << 20 // bytes that all names of a list may need
	perName  = 64      // of them, beside the name itself
)

// Inspect implements backends.Inspector: all keys in one step, and then what is left of the lease.
func (d *Driver) Inspect(ctx context.Context, job string) (backends.Status, error) {
	s, err := d.inspect(ctx, job)
	if err != nil {
		return backends.Status{}, backends.About("inspect", job, err)
	}
	return s, nil
}

func (d *Driver) inspect(ctx context.Context, job string) (backends.Status, error) {
	s, left, err := d.readLeft(ctx, job)
	switch {
	case err != nil:
		return backends.Status{}, err
	case s.foreign != nil:
		return backends.Status{}, s.foreign
	case !s.held && s.written == 0:
		return backends.Status{}, backends.ErrUnknownJob
	}
	status := backends.StatusOf(s.view(0), job)
	if s.held {
		status.Lease.Left = left
	}
	if version, err := d.client.Version(ctx); err == nil { // it is not worth failing for
		status.Notes = knownFaults(version)
	}
	return status, nil
}

// readLeft is read, with what is left of the lease, in whole seconds.
func (d *Driver) readLeft(ctx context.Context, job string) (*state, time.Duration, error) {
	for tries := 0; ; tries++ {
		s, err := d.read(ctx, job)
		if err != nil || !s.held || s.foreign != nil || tries == 3 {
			return s, 0, err
		}
		reply, err := d.client.TimeToLive(ctx, s.lease)
		if err != nil {
			return nil, 0, d.classify(err)
		}
		if reply.TTL >= 0 {
			return s, time.Duration(reply.TTL) * time.Second, nil
		}
		// It has ended since the keys were read, and its key with it: they are read once more. A key that stays
		// without its lease has nothing left.
	}
}

// faults of etcd that concern leases, and the versions of 3.4, 3.5 and 3.6 that have them no more. Later ones
// never had them.
var faults = []struct {
	fixed [3]int
	what  string
}{
	{[3]int{31, 13, 0}, "a leader that hung may end all leases when it goes on"},           // etcd-io/etcd#15247
	{[3]int{38, 23, 5}, "a renewal may be confirmed although the lease was revoked"},       // etcd-io/etcd#14758, #20590
	{[3]int{42, 28, 9}, "a server that was suspended may answer with what is out of date"}, // etcd-io/etcd#20418
}

// knownFaults says what is wrong with the leases of a version.
func knownFaults(version string) []string {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n != 3 || major != 3 || minor > 6 {
		return nil
	}
	var notes []string
	for _, f := range faults {
		if minor < 4 || patch < f.fixed[minor-4] {
			notes = append(notes, fmt.Sprintf("etcd %s has a fault: %s", version, f.what))
		}
	}
	return notes
}

// Jobs implements backends.Inspector.
func (d *Driver) Jobs(ctx context.Context) ([]string, error) {
	var jobs []string
	from, end := below(d.cfg.prefix)
	for size := 0; ; {
		reply, err := d.client.Range(ctx, rpc.Range{Key: from, End: end, Limit: page, KeysOnly: true})
		if err != nil {
			slices.Sort(jobs)
			return jobs, backends.About("list jobs of", d.cfg.prefix, d.classify(err))
		}
		for _, kv := range reply.KVs {
			if job, ok := d.cfg.jobOf(string(kv.Key)); ok {
				jobs = append(jobs, job)
				size += len(job) + perName
			}
		}
		if size > mostList {
			return nil, backends.About("list jobs of", d.cfg.prefix, httplimit.ErrTooLarge)
		}
		if !reply.More || len(reply.KVs) == 0 {
			slices.Sort(jobs)
			return jobs, nil
		}
		from = slices.Concat(reply.KVs[len(reply.KVs)-1].Key, []byte{0}) // what follows the last one
	}
}
