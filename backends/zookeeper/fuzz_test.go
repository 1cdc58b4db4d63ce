package zookeeper

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/test/suite"
)

// FuzzNodes: the nodes of a job are read, or named with what mends them; a lease that says nothing of who runs the job is nobody's
// to take.
func FuzzNodes(f *testing.F) {
	const record = `{"job":"job","token":1700000000001,"holder":{"id":"x","host":"h"},"ttl":15000,"granted":1700000000001,"until":0,"beat":17,"released":0,` +
		`"tick":{"claimant":{"id":"x"}},"schedule":{"by":{"id":"x"}},"version":3}`
	label := backends.Marshal(backends.LabelOf(backends.Grant{Claim: suite.NewClaim("job", minTTL), Token: 1700000000001}))
	f.Add([]byte(record), int32(3), label, int64(7), int32(0), uint8(0))
	f.Add([]byte(record), int32(4), []byte("by hand"), int64(0), int32(1), uint8(0))
	f.Add([]byte(`{"token":"x"}`), int32(0), []byte("{}"), int64(7), int32(0), uint8(0))
	f.Add([]byte("null"), int32(0), []byte("null"), int64(7), int32(0), uint8(2))
	f.Add([]byte(nil), int32(0), []byte(nil), int64(0), int32(0), uint8(3))
	d := open(f, "zk://h")
	k := d.store.cfg.keys("job")
	f.Fuzz(func(t *testing.T, record []byte, version int32, lease []byte, owner int64, changed int32, missing uint8) {
		r, l := wire.NewCall(wire.GetData(k.record)), wire.NewCall(wire.GetData(k.lease))
		r.Data, r.Stat = record, wire.Stat{Czxid: 1, Mzxid: 5, Version: version}
		l.Data, l.Stat = lease, wire.Stat{Czxid: 6, EphemeralOwner: owner, Version: changed}
		if missing&1 == 1 {
			r.Err = &wire.Error{Code: wire.NoNode}
		}
		if missing&2 == 2 {
			l.Err = &wire.Error{Code: wire.NoNode}
		}
		s, err := d.store.state(k, r, l)
		if err == nil {
			err = s.foreign
		}
		if err != nil {
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || p.Kind != backends.Configuration || p.Hint == "" || !strings.Contains(p.Error(), k.record) {
				t.Errorf("%v", err)
			}
			return
		}
		if s.held && (s.label.Token <= 0 || s.label.Holder == "" || owner == 0 || changed != 0) {
			t.Errorf("a lease %+v", s.label)
		}
		_ = s.View(backends.Request{TTL: minTTL})
		if s.record.Beat < 0 { // it was put back, and is never written so
			return
		}
		again, err := backends.ParseRecord(backends.Marshal(stored{s.record, 1}))
		if err != nil || !bytes.Equal(backends.Marshal(again), backends.Marshal(s.record)) {
			t.Errorf("%+v is read again as %+v, %v", s.record, again, err)
		}
	})
}

// FuzzURL: a URL is taken, and its redacted form says the same, or it is refused; neither shows a password.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{
		"h", "h:7/", "a,b:7,[::1]/some/where/", "h/c?prefix=/night/jobs/", "h/a%20b", "h?server-name=zookeeper", "h:0", "h,", "h/a//b", "h/a/../b", "h/.", "h/%zz", "h?foo=1",
	} {
		f.Add(rest, false)
		f.Add(rest, true)
	}
	f.Fuzz(func(t *testing.T, rest string, secure bool) {
		const password = "hunter2"
		if strings.Contains(rest, password) || strings.Contains(rest, "ca=") || strings.Contains(rest, "cert=") || strings.Contains(rest, "key=") {
			t.Skip("no file is read")
		}
		scheme := "zk"
		if secure {
			scheme = "zks"
		}
		c, err := parseURL(scheme + "://u:" + password + "@" + rest)
		if err != nil {
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || strings.Contains(p.Error()+p.Hint, password) {
				t.Errorf("%v (%+v)", err, p)
			}
			return
		}
		shown := c.url.Redacted()
		if strings.Contains(shown, password) || len(c.url.Addrs) == 0 || !isPath(c.dir) || !strings.HasPrefix(c.dir, "/") || (c.tls != nil) != secure {
			t.Errorf("%s: %+v", shown, c)
		}
		again, err := parseURL(shown)
		if err != nil || strings.Join(again.url.Addrs, ",") != strings.Join(c.url.Addrs, ",") || again.dir != c.dir {
			t.Errorf("%s is read as %+v, want %+v: %v", shown, again, c, err)
		}
	})
}
