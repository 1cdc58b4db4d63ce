package postgres

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// copyOf returns a copy of a server's data, as a snapshot of its disk has it, and puts it back.
func copyOf(t *testing.T, s *servers.PostgresServer) (putBack func()) {
	t.Helper()
	run := func(words ...string) {
		t.Helper()
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", words, err, out)
		}
	}
	snapshot := filepath.Join(servers.Dir(t), "data")
	s.Stop(t) // nothing moves while it is copied
	run("cp", "-a", s.Data(), snapshot)
	s.Cont(t)
	return func() {
		t.Helper()
		s.Kill()
		run("rm", "-r", s.Data())
		run("cp", "-a", snapshot, s.Data())
		s.Restart(t, true)
	}
}

// TestSnapshotPutBack: a snapshot of the disk keeps cluster and timeline. That it was put back is told by the server's start:
// what is granted between is waited for, and the holder finds out.
func TestSnapshotPutBack(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	for _, known := range []string{"an earlier run", "nothing of the job"} {
		t.Run(known, func(t *testing.T) {
			w := newOwnWorld(t)
			if known == "an earlier run" {
				g := w.Acquire(w.d, newSteady("job"))
				w.Finish(w.d, g)
			}
			putBack := copyOf(t, w.server)
			g := w.Acquire(w.d, newSteady("job"))
			putBack()
			w.Refused(w.other, newSteady("job"), backends.Quarantined)
			servers.Eventually(t, "the holder is told", func() bool {
				_, err := w.d.Renew(t.Context(), g)
				if err == nil {
					t.Fatal("a lease that the server does not know is renewed")
				}
				return errors.Is(err, backends.ErrLost)
			})
		})
	}
}

// TestPutBackBeforeTheWrite: a claim that read from one start of a server is not written in another one, where the row may be
// as absent as it was.
func TestPutBackBeforeTheWrite(t *testing.T) {
	w := newOwnWorld(t)
	w.Acquire(w.other, newSteady("another")) // from here on the mark stays as it is
	writes := 0
	intercept(w.d, func(request string) {
		if writes++; request != "write" || writes > 2 {
			return
		}
		w.Acquire(w.other, newSteady("job"))
		w.server.Restart(t, true)
		w.server.Do(t, "DELETE FROM leaderrun WHERE job = 'job'") // as a snapshot has it
		w.d.store.client.RotateEndpoint()                         // a pooler has a connection to the new one
	}, nil)
	w.Refused(w.d, newSteady("job"), backends.Quarantined)
}

// TestLongerTTLElsewhere: a claim that was decided on before a host with a longer ?longest-ttl= came is decided on again.
func TestLongerTTLElsewhere(t *testing.T) {
	t.Parallel()
	servers.SkipShort(t)
	s := servers.Postgres(t, servers.PostgresOptions{})
	short, long := open(t, with(s.URL(), "longest-ttl=1s")), open(t, with(s.URL(), "longest-ttl=1h"))
	w := &world{Steps: suite.On(t), server: s}
	s.Do(t, short.store.sql.create)
	servers.Eventually(t, "the server is no new one to the host with the short leases", func() bool {
		return s.Do(t, "SELECT clock_timestamp() > pg_postmaster_start_time() + interval '2 seconds'") == "t"
	})
	came := false
	intercept(short, func(request string) {
		if request == "mark" && !came {
			came = true
			w.Refused(long, newSteady("another"), backends.Quarantined)
		}
	}, nil)
	c := newClaim("job")
	c.TTL = time.Second
	w.Refused(short, c, backends.Quarantined)
	if !came {
		t.Error("nothing came between")
	}
}

// TestMarkIsCompared: a claim that was decided on under a mark is decided on again where somebody has deleted that, and others
// wait.
func TestMarkIsCompared(t *testing.T) {
	w := newOwnWorld(t)
	deleted := false
	intercept(w.d, func(request string) {
		if request == "write" && !deleted {
			deleted = true
			w.server.Do(t, "DELETE FROM leaderrun WHERE job = ''")
			w.Refused(w.other, newSteady("another"), backends.Quarantined)
		}
	}, nil)
	w.Refused(w.d, newSteady("job"), backends.Quarantined)
	if !deleted {
		t.Error("nothing came between")
	}
}

// TestRestarted: a restart costs a run nothing, and nobody else starts until the longest lease that it may have forgotten is over.
func TestRestarted(t *testing.T) {
	w := newOwnWorld(t)
	g, ended := w.Acquire(w.d, newSteady("job")), w.Acquire(w.d, newSteady("ended"))
	w.server.Restart(t, true)
	survives := func(what string, step func(context.Context) error) {
		t.Helper()
		servers.Eventually(t, what, func() bool { // once it has found out that its connection is dead
			err := step(t.Context())
			if backends.IsAnswer(err) {
				t.Fatalf("%s: %v", what, err)
			}
			return err == nil
		})
	}
	survives("a renewal", func(ctx context.Context) error { _, err := w.d.Renew(ctx, g); return err })
	if _, err := w.d.Renew(t.Context(), g); err != nil {
		t.Errorf("the next renewal: %v", err)
	}
	survives("an end", func(ctx context.Context) error {
		return w.d.Finish(ctx, ended, backends.Outcome{State: backends.Done})
	})
	started := w.server.Do(t, "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::text")
	up, err := time.ParseDuration(started + "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"ended", "another"} {
		if r := w.Refused(w.other, newSteady(job), backends.Quarantined); r.Wait > backendurl.DefaultLongestTTL-up {
			t.Errorf("%s: waits for %v, and the server has been up for %v", job, r.Wait, up)
		}
	}
	w.Refused(w.other, newSteady("job"), backends.Held)
}
