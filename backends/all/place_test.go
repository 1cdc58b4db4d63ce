package all

import "testing"

// Two URLs are one store, or not, whatever their users, certificates and lists of hosts are.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"redis://h", "redis://:secret@h:6379/0", true},
		{"redis://h", "redis://other", false},
		{"redis://h", "redis://h/1", false},
		{"redis://h", "redis://h?prefix=x", false},
		{"redis://h", "rediss://h", false},
		{"redis+unix:///s?db=1", "redis+unix:///s?db=2", false},
		{"rediss://u:p@h?ca=/nowhere/ca.pem", "rediss://h:6379", true},
		{"redis+sentinel://a,b/main", "redis+sentinel://b,c/main", true},
		{"redis+sentinel://a,b/main", "redis+sentinel://a,b/other", false},
		{"postgres://u:p@h/db", "postgresql://v@h:5432/db?sslmode=require", true},
		{"postgres://u@h/db", "postgres://u@h/other", false},
		{"postgres://u@h", "postgres://v@h", false},
		{"postgres://u@h/u", "postgres://h?user=u", true},
		{"postgres://u@h/db?prefix=a", "postgres://u@h/db", false},
		{"etcd://a,b,c", "etcd://c:2379,d/leaderrun", true},
		{"etcd://a/x", "etcd://a?prefix=x", true},
		{"etcds://a?ca=/nowhere/ca.pem&cert=/nowhere/c&key=/nowhere/k", "etcds://a", true},
		{"consul://localhost?dc=x", "consul://localhost", false},
		{"consul://localhost?token-file=/nowhere/token", "consul://:t@localhost", true},
		{"zk://a/app", "zk://a", false},
		{"k8s://jobs", "k8s://jobs?kubeconfig=/nowhere/config", true},
		{"k8s://jobs", "k8s://", false},
		{"file:", "file:///srv", false},
	} {
		a, errA := PlaceOf(c.a)
		b, errB := PlaceOf(c.b)
		if errA != nil || errB != nil || a.IsSame(b) != c.same || b.IsSame(a) != c.same {
			t.Errorf("%s (%+v, %v) and %s (%+v, %v): want the same: %v", c.a, a, errA, c.b, b, errB, c.same)
		}
	}
	for _, wrong := range []string{"rdis://h", "redis://h,h2", "redis://h?ca=/x", "postgres://h", "h:6379", "etcd://h:port", ""} {
		if p, err := PlaceOf(wrong); err == nil {
			t.Errorf("%q is taken: %+v", wrong, p)
		}
	}
	for url, local := range map[string]bool{
		"file:": true, "redis://localhost": true, "redis://127.0.0.1:7": true, "redis+unix:///s": true, "postgres://u@[::1]/db": true,
		"redis://h": false, "consul://localhost": false, "etcd://localhost": false, "postgres://u@localhost,h/db": false,
	} {
		if p, err := PlaceOf(url); err != nil || p.IsLocal() != local {
			t.Errorf("%s: %+v, %v", url, p, err)
		}
	}
}
