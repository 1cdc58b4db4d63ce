package etcd

import (
	"context"
	"fmt"
	"time"
)

// inspect reads all keys in one step, and then what is left of the lease and what the server's version cannot promise.
func (s *store) inspect(ctx context.Context, job string) (*state, error) {
	now, err := s.readLeft(ctx, job)
	if err != nil || now.foreign != nil || !now.held && now.written == 0 {
		return now, err
	}
	if member, err := s.client.Status(ctx); err == nil { // it is not worth failing for
		now.notes = knownFaults(member.Version)
	}
	return now, nil
}

// readLeft is read, with what is left of the lease.
func (s *store) readLeft(ctx context.Context, job string) (*state, error) {
	for tries := 0; ; tries++ {
		now, err := s.read(ctx, job)
		if err != nil || !now.held || now.foreign != nil || tries == 3 {
			return now, err
		}
		reply, err := s.client.TimeToLive(ctx, now.lease)
		if err != nil {
			return nil, s.classify(err)
		}
		if reply.TTL >= 0 {
			now.left = time.Duration(reply.TTL) * time.Second
			return now, nil
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
