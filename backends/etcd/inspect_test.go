package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

func (w *world) inspect(job string) backends.Status {
	w.Helper()
	s, err := w.other.Inspect(w.Context(), job)
	if err != nil {
		w.Fatalf("Inspect: %v", err)
	}
	return s
}

// TestInspectTheEnd: a lease that ends between the two requests is not shown, and neither is what went before.
func TestInspectTheEnd(t *testing.T) {
	w := newWorld(t)
	g := w.Acquire(w.d, newClaim("job"))
	var once atomic.Bool
	intercept(w.other, func(request string) {
		if request == "left" && once.CompareAndSwap(false, true) {
			w.Finish(w.d, g)
		}
	}, func(request string) error {
		if request == "version" {
			return errLost // what is nice to know is not worth failing for
		}
		return nil
	})
	if s := w.inspect("job"); s.Lease != nil || !s.Record.Free() {
		t.Errorf("%+v", s)
	}
}

func TestJobs(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range page + 10 { // a job has two keys while it is held
		name := fmt.Sprintf("job/%05d", i)
		want = append(want, name)
		k := w.d.store.cfg.keys(name)
		w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: k.lease}}, rpc.Op{Put: &rpc.Put{Key: k.record}})
	}
	for _, key := range []string{"leaderrun", "leaderrun/x", "leaderrun/x/y/record", "leaderrun//x/record", "leaderrun/a%2fb/record", "leaderrun/%zz/record", "leaderrun/l/lease", "leaderrun0/x/record", "x/record"} {
		w.operator.do(t, rpc.Op{Put: &rpc.Put{Key: []byte(key)}})
	}
	got, err := w.d.Jobs(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v:\n%s", err, cmp.Diff(want, got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.d.Jobs(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestKnownFaults(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{
		"3.3.27": 3, "3.4.0": 3, "3.4.30": 3, "3.4.31": 2, "3.4.37": 2, "3.4.38": 1, "3.4.42": 0, "3.5.12": 3, "3.5.13": 2, "3.5.23": 1, "3.5.28": 0,
		"3.6.0": 2, "3.6.4": 2, "3.6.5": 1, "3.6.9": 0, "3.6.16": 0, "3.7.0": 0, "3.7.0-alpha.0": 0, "3.6.0-rc.1": 2, "4.0.0": 0, "": 0, "x": 0, "3.5": 0,
	} {
		if got := knownFaults(version); len(got) != want {
			t.Errorf("%q: %q, want %d", version, got, want)
		}
	}
}

// onePage is a client that is cut off after one page of keys.
type onePage struct {
	client
	keys  [][]byte
	asked bool
}

func (p *onePage) Range(context.Context, rpc.Range) (rpc.RangeReply, error) {
	if p.asked {
		return rpc.RangeReply{}, errors.New("cut off")
	}
	p.asked = true
	reply := rpc.RangeReply{More: true}
	for _, key := range p.keys {
		reply.KVs = append(reply.KVs, rpc.KeyValue{Key: key})
	}
	return reply, nil
}

// TestJobsBesideAnError: hazard: one page of many cannot be read, and nobody is told of the jobs on the others.
func TestJobsBesideAnError(t *testing.T) {
	t.Parallel()
	d := open(t, "etcd://h")
	d.store.client = &onePage{client: d.store.client, keys: [][]byte{d.store.cfg.keys("b").record, d.store.cfg.keys("a").record}}
	jobs, err := d.Jobs(t.Context())
	if err == nil || !slices.Equal(jobs, []string{"a", "b"}) {
		t.Errorf("%v, %v", jobs, err)
	}
}
