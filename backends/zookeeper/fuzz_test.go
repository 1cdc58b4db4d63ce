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

// FuzzURL: whatever the URL, nothing shows its password, nothing panics, and what is shown of one that is taken means the same.
func FuzzURL(f *testing.F) { suite.FuzzURL(f, Open, badURLs, form.Shapes) }
