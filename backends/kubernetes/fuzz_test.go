package kubernetes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// FuzzURL: a URL is taken, and its redacted form means the same, or it is refused for good; neither shows a password, and no file is read
// but the one of the test.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{
		"", "ns", "ns/team", "/team", "ns?prefix=a%2Fb", "ns?context=b", "ns?context=none", "Ns", "ns:1", "a,b", "ns//a", "ns/%zz", "ns?foo=1", "[::1]", strings.Repeat("a", 64),
	} {
		f.Add(rest, false)
		f.Add(rest, true)
	}
	home := f.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(home, ".kube"), 0o700), os.WriteFile(filepath.Join(home, ".kube", "config"), []byte(twoContexts), 0o600)); err != nil {
		f.Fatal(err)
	}
	s := surroundings{account: "/nowhere", env: func(name string) string {
		if name == "HOME" {
			return home
		}
		return ""
	}}
	f.Fuzz(func(t *testing.T, rest string, user bool) {
		const password = "hunter2"
		if strings.Contains(rest, password) || strings.Contains(rest, "kubeconfig=") {
			t.Skip("no other file is read")
		}
		url := "k8s://" + rest
		if user {
			url = "k8s://u:" + password + "@" + rest
		}
		c, err := parseURL(url, s)
		if err != nil {
			p, ok := errors.AsType[*backends.PermanentError](err)
			if !ok || strings.Contains(err.Error()+p.Hint, password) {
				t.Fatalf("%q: %v", url, err)
			}
			return
		}
		if user {
			t.Fatalf("%q is taken: nobody would be let in as that user", url)
		}
		again, err := parseURL(c.url.Redacted(), s)
		if err != nil || again.namespace != c.namespace || again.prefix != c.prefix || again.context != c.context || again.server != c.server {
			t.Fatalf("%q: as %s it is %+v, %v", url, c.url.Redacted(), again, err)
		}
	})
}
