package suite

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
)

// FaultOfAll checks that a wrong authority is told, by a run when both of two hosts have met it, and by doctor; and that the fault of
// one host ends nothing that another may serve. The scheme is one with TLS.
func FaultOfAll[D backends.Backend](t *testing.T, open func(url string) (D, error), scheme string) {
	t.Helper()
	certs, others := servers.NewCertificates(t), servers.NewCertificates(t)
	a, _ := servers.Shaking(t, certs.Server(t))
	b, down := servers.Shaking(t, certs.Server(t))
	url := scheme + "://" + a + "," + b + "?ca=" + others.CA
	claim := func(d D) error {
		_, err := d.Acquire(t.Context(), NewClaim("job", time.Minute))
		return err
	}
	d := Open(t, open, url)
	err := claim(d)
	if !backends.IsPermanent(err) { // one of two was asked
		err = claim(d)
	}
	if p, ok := errors.AsType[*backends.PermanentError](err); !ok || p.Kind != backends.Configuration || !strings.Contains(p.Hint, "?ca=FILE") {
		t.Errorf("both were asked: %v (%+v)", err, p)
	}
	if found := Examined(t, d.Examine(t.Context(), 15*time.Second), "")[checkup.Reachable]; len(found) != 2 ||
		slices.ContainsFunc(found, func(f backends.Finding) bool {
			return f.Grade != backends.Bad || !strings.Contains(f.Remedy, "?ca=FILE")
		}) {
		t.Errorf("doctor: %+v", found)
	}
	down()
	d = Open(t, open, url)
	for range 3 {
		if err := claim(d); err == nil || backends.IsPermanent(err) {
			t.Errorf("one is down, and may be in order: %v", err)
		}
	}
}

// Allocated returns how many bytes of memory f takes, those that are free again included. A test that asks is not parallel.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
