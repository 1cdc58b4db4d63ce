package acceptance

import (
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/servers"
)

var zookeeperFaults = []fault[*servers.ZooKeeperServer]{
	{
		name: "lease deleted", code: 75, within: atOnce,
		strike: func(b *bed, s *servers.ZooKeeperServer, _ *wrapper) { s.MustDelete(b.t, "/leaderrun/job/lease") },
	},
	{
		// The server counts on when it wakes up: the session is over, and nobody has renewed it.
		name: "server stopped for longer than a session", code: 75,
		strike: func(b *bed, s *servers.ZooKeeperServer, _ *wrapper) { s.Stop(b.t) },
		mend: func(b *bed, s *servers.ZooKeeperServer, w *wrapper) {
			w.wait()
			s.Cont(b.t)
		},
	},
	{
		name: "server killed until the run is over", code: 75,
		strike: func(_ *bed, s *servers.ZooKeeperServer, _ *wrapper) { s.Kill() },
		mend: func(b *bed, s *servers.ZooKeeperServer, w *wrapper) {
			w.wait()
			s.Restart(b.t, true)
		},
	},
}

func TestFaultsOnZooKeeper(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, f := range zookeeperFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := servers.ZooKeeper(t, servers.ZooKeeperOptions{MaxSessionTimeout: longTTL})
			b := newBed(t, s.URL())
			if f.within != 0 {
				b.ttl = longTTL
			}
			strike(b, s, f)
		})
	}
}

// A wrapper that is stopped for longer than its session finds another's lease when it goes on, and leaves that alone.
func TestSessionExpiresWhileTheWrapperIsStopped(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{})
	b := newBed(t, s.URL())
	w := b.holder()
	old := b.last()
	standby := b.start(nil, "--wait", "forever")
	w.signal(syscall.SIGSTOP)
	now := b.beats(standby, old.token)
	lease, err := s.Get("/leaderrun/job/lease")
	if err != nil {
		t.Fatal(err)
	}
	w.signal(syscall.SIGCONT)
	if code := w.wait(); code == 0 {
		t.Errorf("exit code 0 of a run that was ended: %s", w.said())
	}
	if !b.renewed(standby) {
		t.Errorf("the standby's run ended with code %d: %s", standby.code(), standby.said())
	}
	if token := b.last().token; token != now.token {
		t.Errorf("token %d runs, want %d", token, now.token)
	}
	if after, err := s.Get("/leaderrun/job/lease"); err != nil || after.Czxid != lease.Czxid {
		t.Errorf("the lease of the one that goes on: %+v before, %+v after, %v", lease, after, err)
	}
}

// A claim whose answer is lost with its connection leaves a lease that nobody else has: it is found again or taken back,
// and the job runs once.
func TestClaimWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{MaxSessionTimeout: longTTL})
	proxy := servers.NewProxy(t, s.Addr())
	b := newBed(t, "zk://"+proxy.Addr())
	b.ttl = longTTL // a request may take a sixth of it
	proxy.Delay(time.Second)
	w := b.start(nil, "--backend-wait", "1m")
	servers.Eventually(t, "the lease is there, and its answer is not", func() bool {
		_, err := s.Get("/leaderrun/job/lease")
		return err == nil
	})
	proxy.CutReplies(true)
	proxy.Delay(0)
	servers.Eventually(t, "the answer is lost", func() bool { return proxy.Dropped() > 0 })
	proxy.CutReplies(false)
	first := b.beats(w, 0)
	if spans := b.verdict(); len(spans) != 1 || w.ended() {
		t.Errorf("%d runs, want the one of token %d: %s", len(spans), first.token, w.said())
	}
}

// An operator who deletes a job with all that is known of it ends its run, and the next one has a greater token: that is
// what a fence goes by.
func TestLeaseAndRecordDeletedByAnOperator(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.ZooKeeper(t, servers.ZooKeeperOptions{MaxSessionTimeout: longTTL})
	b := newBed(t, s.URL())
	b.ttl = longTTL
	w := b.holder()
	old := b.last()
	s.MustDelete(t, "/leaderrun/job")
	if code := w.wait(); code != 75 {
		t.Errorf("exit code %d, want 75: %s", code, w.said())
	}
	gone(t, old)
	b.beats(b.start(nil, "--wait", "forever"), old.token)
}
