package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

// surveying is how long a host may take to say which cluster it is of.
const surveying = time.Second

// sameCluster checks that the member that answered is of the cluster that answered before: servers that know nothing of
// each other would each give the lease to somebody. A cluster that was made anew is another one. It takes the place of
// the old one when most hosts of the URL are of it, and none is of a third or still of the old one. What a grant of the
// old one knows does no harm there: no two leases of etcd's have the same id.
func (d *Driver) sameCluster(ctx context.Context, id uint64) error {
	known := d.cluster.Load()
	if id == known || known == 0 && d.cluster.CompareAndSwap(0, id) {
		return nil
	}
	if err := agreed(id, d.clusters(ctx)); err != nil {
		return err
	}
	d.cluster.Store(id)
	return nil
}

// agreed says what is wrong with a cluster that is not the known one, by what each host of the URL says; 0: nothing.
func agreed(id uint64, said []uint64) error {
	silent := 0
	for _, is := range said {
		switch is {
		case id:
		case 0:
			silent++
		default:
			return backends.Misconfigured("a backend URL names the members of one cluster", "the hosts of the backend URL belong to different etcd clusters")
		}
	}
	if 2*silent >= len(said) {
		return fmt.Errorf("etcd cluster %x answers in the place of another one, and of %d hosts %d do not say which one they belong to", id, len(said), silent)
	}
	return nil
}

// clusters asks each host of the URL, by a client of its own, which cluster it is of; 0: it does not say.
func (d *Driver) clusters(ctx context.Context) []uint64 {
	ctx, cancel := context.WithTimeout(ctx, surveying)
	defer cancel()
	u := d.cfg.url
	said := make([]uint64, len(u.Addrs))
	var asked sync.WaitGroup
	for i, addr := range u.Addrs {
		asked.Go(func() {
			c := rpc.New(rpc.Config{Endpoints: []string{addr}, TLS: d.cfg.tls, User: u.User, Password: u.Password})
			defer func() { _ = c.Close() }()
			if status, err := c.Status(ctx); err == nil {
				said[i] = status.Header.ClusterID
			}
		})
	}
	asked.Wait()
	return said
}
