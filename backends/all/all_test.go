package all

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/internal/remedy"
	"github.com/leaderrun/leaderrun/test/suite"
)

// A mistyped scheme, and the name of a server in the place of its scheme, have a hint which scheme is meant.
func TestAMistypedSchemeHasAHint(t *testing.T) {
	for scheme, meant := range map[string]string{
		"reddis": "redis", "redis-sentinel": "redis+sentinel", "valkey": "redis", "valky": "redis",
		"zookeper": "zk", "zookeeper": "zk", "zkk": "zk", "kubernets": "k8s", "Kubernetes": "k8s", "kube": "k8s", "k8": "k8s",
		"postgress": "postgres", "postgre": "postgres", "pg": "postgres", "consull": "consul", "etdc": "etcd", "etdcs": "etcds", "fiel": "file",
	} {
		_, err := Open(scheme + "://host")
		if got, want := remedy.Of(err), "did you mean "+meant+"://?"; got != want {
			t.Errorf("%s: the hint is %q, want %q", scheme, got, want)
		}
	}
	const list = "this build has consul, consuls, etcd, etcds, file, k8s, postgres, postgresql, redis, redis+cluster, " +
		"redis+sentinel, redis+unix, rediss, rediss+cluster, rediss+sentinel, zk, zks"
	for _, scheme := range []string{"mysql", "dynamodb", "s3", "memcached"} {
		if _, err := Open(scheme + "://host"); remedy.Of(err) != list {
			t.Errorf("%s, of which there is nothing: the hint is %q", scheme, remedy.Of(err))
		}
	}
}

// Each other name leads to a scheme that there is.
func TestOtherNamesLeadToSchemes(t *testing.T) {
	for name, scheme := range otherNames {
		if drivers()[scheme] == nil || drivers()[name] != nil {
			t.Errorf("%s leads to %s", name, scheme)
		}
	}
}

// Hazard: none of the hosts answers, and doctor says that the store can be trusted.
func TestDoctorWithoutAServer(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://127.0.0.1:1", "etcd://127.0.0.1:1", "consul://127.0.0.1:1", "zk://127.0.0.1:1", "postgres://u:p@127.0.0.1:1/d", "postgres://u:p@127.0.0.1:1,127.0.0.1:2/d",
	} {
		found := suite.Examined(t, suite.Open(t, Open, url).Examine(t.Context(), 15*time.Second), "")
		found.Expect(t, checkup.Reachable, backends.Bad, "connection refused")
		if len(found) != 1 || len(found[checkup.Reachable]) != strings.Count(url, "127.0.0.1") {
			t.Errorf("%s: %+v", url, found)
		}
		for _, f := range found[checkup.Reachable] {
			if f.Grade != backends.Bad {
				t.Errorf("%s: %+v", url, f)
			}
		}
	}
}
