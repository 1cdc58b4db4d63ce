package kubernetes

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
)

// FuzzLease: whatever stands in a Lease of ours, it is refused for good, or a state that can be decided upon.
func FuzzLease(f *testing.F) {
	const record = `{"job":"job","token":5,"ttl":15000,"until":1700000000000,"holder":{"id":"a","host":"h"},"released":4}`
	f.Add(record, "leaderrun", "90", "123", "h_a")
	f.Add(`{"job":"job"}`, "leaderrun", "", "1", "")
	f.Add("null", "leaderrun", "x", "-1", "h_a")
	f.Add(`{"job":"job","token":9223372036854775807,"ttl":-1,"until":-9223372036854775808}`, "leaderrun", "9", "9223372036854775807", "_")
	cfg := &config{prefix: "leaderrun", namespace: "ns"}
	f.Fuzz(func(t *testing.T, record, prefix, beat, version, holder string) {
		l := &api.Lease{
			Name: "leaderrun-job", UID: "u", ResourceVersion: version, Spec: api.Spec{HolderIdentity: holder},
			Annotations: map[string]string{recordKey: record, prefixKey: prefix, beatKey: beat},
		}
		_, _ = cfg.jobOf(api.Listed{Name: l.Name, Annotations: l.Annotations})
		s, err := cfg.state("job", l)
		if err != nil {
			if !backends.IsPermanent(err) || len(err.Error()) > 4000 {
				t.Fatalf("%.500v", err)
			}
			return
		}
		if s.version <= 0 || s.record.Beat > s.version || s.record.Beat < 0 || s.record.Job != "job" {
			t.Fatalf("%+v", s)
		}
		s.news(nil)
		s.news(s)
		backends.Decide(s.View(asks("a", backends.LastSeen{})), newClaim("job"))
		s.changed(cfg, "job", alive(s.record))
		s.silence(time.Now())
	})
}
