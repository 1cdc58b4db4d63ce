package bed

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/test/servers"
)

// errNoLease says that nobody runs the job, so that nothing can be taken away.
var errNoLease = errors.New("nobody has the lease")

// once is a fault by an administrator that is over at once, and takes a lease away: that of a job, or of a slot or shard.
func once(name string, strike func(t testing.TB, lease string) error) Fault {
	return Fault{
		Name: name, OnServer: true, Once: true, Kills: true,
		Strike: func(b *Bed, v Victim) (func() error, error) { return nil, strike(b.T, v.Lease) },
	}
}

// inPath is the name of a lease as a part of the keys of most stores.
func inPath(lease string) string { return url.PathEscape(lease) }

// emptied is a store whose keys are all deleted, those of a peer too. excused says whether it then grants at once.
func emptied(excused bool, strike func(t testing.TB) error) Fault {
	f := once("store emptied", func(t testing.TB, _ string) error { return strike(t) })
	f.Excused, f.Forgets, f.Peers = excused, true, true
	return f
}

// excused is a fault of which the promise says that runs may overlap.
func excused(f Fault) Fault {
	f.Excused = true
	return f
}

// forgetting is one that takes the record along, too.
func forgetting(f Fault) Fault {
	f.Excused, f.Forgets = true, true
	return f
}

// redisAdmin does what people do to a Redis: to the master that it returns.
type redisAdmin func(t testing.TB) *servers.RedisServer

func (a redisAdmin) faults() []Fault {
	return []Fault{
		emptied(false, func(t testing.TB) error {
			_, err := a.try(t, "flushall")
			return err
		}),
		once("lease deleted", func(t testing.TB, lease string) error {
			n, err := a.try(t, "del", "leaderrun:{"+lease+"}:lease")
			if err == nil && n != int64(1) {
				err = errNoLease
			}
			return err
		}),
	}
}

func (a redisAdmin) try(t testing.TB, words ...any) (any, error) {
	t.Helper()
	s := a(t)
	if s == nil {
		return nil, errors.New("there is no master")
	}
	return s.Try(words...)
}

// failover makes the Sentinels promote a replica of a master that is well.
func (x *site) failover(set *servers.SentinelSet) Fault {
	return x.fault(Fault{Name: "failover by hand", Peers: true}, func(b *Bed) (func() error, error) {
		_, err := set.Sentinels[b.Chance.IntN(len(set.Sentinels))].Try("sentinel", "failover", set.Name)
		return nil, err
	})
}

// etcdAdmin does what people do to an etcd: by the member that it returns.
type etcdAdmin func(t testing.TB) *servers.EtcdServer

func etcdLease(lease string) string { return "leaderrun/" + inPath(lease) + "/lease" }

func (a etcdAdmin) faults() []Fault {
	return []Fault{
		emptied(true, func(t testing.TB) error {
			_, err := a(t).TryCtl("del", "--from-key", "")
			return err
		}),
		once("lease deleted", func(t testing.TB, lease string) error {
			n, err := a(t).TryCtl("del", etcdLease(lease))
			if err == nil && strings.TrimSpace(n) != "1" {
				err = errNoLease
			}
			return err
		}),
		once("lease revoked", func(t testing.TB, lease string) error {
			s := a(t)
			text, err := s.TryCtl("get", etcdLease(lease), "-w", "json")
			if err != nil {
				return err
			}
			var kv struct{ KVs []struct{ Lease int64 } }
			if err := json.Unmarshal([]byte(text), &kv); err != nil {
				return err
			}
			if len(kv.KVs) == 0 {
				return errNoLease
			}
			_, err = s.TryCtl("lease", "revoke", fmt.Sprintf("%x", kv.KVs[0].Lease))
			return err
		}),
	}
}

// etcdFiller is what all keys begin with that fill a database.
const etcdFiller = "filler/"

// noSpace is an etcd whose database has reached its quota: it takes no more writes until somebody says so.
func (a etcdAdmin) noSpace(x *site) Fault {
	return x.fault(Fault{Name: "database full", Peers: true}, func(b *Bed) (func() error, error) {
		return func() error { return a.makeRoom(b.T) }, a.fill(b.T)
	})
}

func (a etcdAdmin) fill(t testing.TB) error {
	t.Helper()
	value := base64.StdEncoding.EncodeToString(make([]byte, 1<<20))
	for i := range 100 {
		key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s%d", etcdFiller, i))
		_, err := a(t).TryAPI("kv/put", fmt.Sprintf(`{"key":%q,"value":%q}`, key, value))
		if err != nil && strings.Contains(err.Error(), "database space exceeded") {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the database has no end")
}

// makeRoom is what etcd's operators are told to do.
func (a etcdAdmin) makeRoom(t testing.TB) error {
	t.Helper()
	s := a(t)
	text, err := s.TryCtl("del", "--prefix", etcdFiller, "-w", "json")
	if err != nil {
		return err
	}
	var deleted struct{ Header struct{ Revision int64 } }
	if err := json.Unmarshal([]byte(text), &deleted); err != nil {
		return err
	}
	for _, words := range [][]string{{"compact", fmt.Sprint(deleted.Header.Revision)}, {"defrag"}, {"alarm", "disarm"}} {
		if _, err := s.TryCtl(append([]string{"--command-timeout", "1m"}, words...)...); err != nil {
			return err
		}
	}
	return nil
}

// consulAdmin does what people do to a Consul: by the server that it returns.
type consulAdmin func(t testing.TB) *servers.ConsulServer

// consulLock is the path of a lock, whose key is escaped already.
func consulLock(lease string) string { return "/v1/kv/leaderrun/" + inPath(inPath(lease)) + "/lock" }

func (a consulAdmin) faults() []Fault {
	return []Fault{
		emptied(true, func(t testing.TB) error {
			_, err := a(t).TryAPI("DELETE", "/v1/kv/?recurse", "")
			return err
		}),
		once("lock deleted", func(t testing.TB, lease string) error {
			_, err := a.session(t, lease)
			if err == nil {
				_, err = a(t).TryAPI("DELETE", consulLock(lease), "")
			}
			return err
		}),
		once("lock released", func(t testing.TB, lease string) error {
			session, err := a.session(t, lease)
			if err == nil {
				_, err = a(t).TryAPI("PUT", consulLock(lease)+"?release="+session, "")
			}
			return err
		}),
		once("session destroyed", func(t testing.TB, lease string) error {
			session, err := a.session(t, lease)
			if err == nil {
				_, err = a(t).TryAPI("PUT", "/v1/session/destroy/"+session, "")
			}
			return err
		}),
	}
}

// session returns the one that holds the lock.
func (a consulAdmin) session(t testing.TB, lease string) (string, error) {
	t.Helper()
	text, err := a(t).TryAPI("GET", consulLock(lease), "")
	if err != nil {
		return "", err
	}
	var kv []struct{ Session string }
	if err := json.Unmarshal([]byte(text), &kv); err != nil {
		return "", err
	}
	if len(kv) == 0 || kv[0].Session == "" {
		return "", errNoLease
	}
	return kv[0].Session, nil
}
