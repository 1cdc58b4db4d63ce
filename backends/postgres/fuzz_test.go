package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/test/suite"
)

// FuzzRow: a row is read, or named as damaged; no lease is anybody's without a token, and a record is written as it was read.
func FuzzRow(f *testing.F) {
	const record = `{"job":"job","token":1700000000001,"holder":{"id":"x","host":"h"},"ttl":15000,"granted":1700000000001,"until":0,"beat":0,"released":0,` +
		`"tick":{"tick":1700000000,"state":"claimed","claimant":{"id":"x"}},"schedule":{"by":{"id":"x"}},"runs":[{"token":1700000000001,"holder":{"id":"x"},"state":"claimed"}]}`
	f.Add("7", record, "x", "1700000000001", "1700000015001", "3", "9", `{"identity":"7000000000000000000:00000001:1700000000000000","longest":30000}`, uint8(0))
	f.Add("7", "null", "", "-1", "infinity", "", "", "", uint8(0))
	f.Add("", "", "", "", "", "", "", "", uint8(0xff))
	d := open(f, "postgres://u@h")
	f.Fuzz(func(t *testing.T, version, record, holder, token, until, beat, markVersion, mark string, null uint8) {
		columns := columnsOf("job")
		names := []string{"version", "record", "holder", "token", "until", "beat", "mark version", "mark"}
		for i, text := range []string{version, record, holder, token, until, beat, markVersion, mark} {
			if columns[names[i]] = wire.Text(text); null>>i&1 == 1 {
				columns[names[i]] = wire.Value{}
			}
		}
		s, err := d.store.state("job", replyOf(columns))
		if err != nil {
			if p := permanent(err); p.Kind != backends.Configuration || p.Hint == "" {
				t.Errorf("%v", err)
			}
			return
		}
		if v := s.View(backends.Request{}); v.Lease != nil && (v.Lease.Holder == "" || v.Lease.Token <= 0 || v.Lease.Left <= 0) {
			t.Errorf("a lease %+v", v.Lease)
		}
		_ = s.bound()
		_, _ = s.server.admit(time.Minute)
		again, err := backends.ParseRecord([]byte(ascii(s.record)))
		if err != nil || !bytes.Equal(backends.Marshal(again), backends.Marshal(s.record)) {
			t.Errorf("%+v is read again as %+v, %v", s.record, again, err)
		}
	})
}

// FuzzURL: whatever the URL, nothing shows its password, nothing panics, and what is shown of one that is taken means the same.
func FuzzURL(f *testing.F) { suite.FuzzURL(f, Open, badURLs, form.Shapes) }
