package all

import (
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/test/suite"
)

// The suite on servers that variables name, as in LEADERRUN_TEST_POSTGRES=postgres://…. It leaves its records behind.
func TestNamedServers(t *testing.T) {
	t.Parallel()
	lacks := map[string]string{}
	for _, function := range []string{"DeleteLease", "DeleteRecord", "Change", "Stall", "Restart", "Empty", "RestartEmpty"} {
		lacks[function] = "the server is another's"
	}
	for store, ttl := range map[string]time.Duration{
		"REDIS": time.Second, "POSTGRES": time.Second, "ETCD": 2 * time.Second, "CONSUL": 10 * time.Second, "KUBERNETES": 2 * time.Second, "ZOOKEEPER": 5 * time.Second,
	} {
		url := os.Getenv("LEADERRUN_TEST_" + store)
		if url == "" {
			continue
		}
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			suite.Run(t, suite.Harness{Open: suite.Opener(Open, url), TTL: ttl, Settle: time.Minute, Lacks: lacks})
		})
	}
}
