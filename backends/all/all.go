// Package all is the only place that names every driver.
package all

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/consul"
	"github.com/leaderrun/leaderrun/backends/etcd"
	"github.com/leaderrun/leaderrun/backends/file"
	"github.com/leaderrun/leaderrun/backends/kubernetes"
	"github.com/leaderrun/leaderrun/backends/postgres"
	"github.com/leaderrun/leaderrun/backends/redis"
	"github.com/leaderrun/leaderrun/backends/zookeeper"
	"github.com/leaderrun/leaderrun/internal/spelling"
)

// drivers opens stores by the schemes of their URLs. It asks no server.
func drivers() map[string]func(rawURL string) (*backends.Engine, error) {
	return map[string]func(rawURL string) (*backends.Engine, error){
		"etcd":            etcd.Open,
		"etcds":           etcd.Open,
		"file":            file.Open,
		"postgres":        postgres.Open,
		"postgresql":      postgres.Open,
		"k8s":             kubernetes.Open,
		"redis":           redis.Open,
		"rediss":          redis.Open,
		"redis+unix":      redis.Open,
		"redis+sentinel":  redis.Open,
		"rediss+sentinel": redis.Open,
		"redis+cluster":   redis.Open,
		"rediss+cluster":  redis.Open,
		"consul":          consul.Open,
		"consuls":         consul.Open,
		"zk":              zookeeper.Open,
		"zks":             zookeeper.Open,
	}
}

// otherNames are what people call a server whose scheme is another word. They are read only.
var otherNames = map[string]string{"kubernetes": "k8s", "pg": "postgres", "valkey": "redis", "zookeeper": "zk"}

// Open returns the driver for a backend URL. Every error is a *backends.PermanentError, and none shows more
// of the URL than its scheme unless the driver knows what is secret in it.
func Open(rawURL string) (backends.Backend, error) {
	scheme, _, found := strings.Cut(rawURL, ":")
	if !found {
		return nil, backends.Misconfigured("a URL begins with a scheme, like file: or redis://", "this is not a backend URL")
	}
	scheme = strings.ToLower(scheme)
	open, known := drivers()[scheme]
	if !known && !isScheme(rawURL) { // it may be anything, a password too
		return nil, backends.Misconfigured("a URL begins with a scheme, like file: or redis://", "this is not a backend URL")
	}
	if !known {
		hint := "this build has " + strings.Join(Schemes(), ", ")
		if meant := spelling.Closest(scheme, slices.Concat(Schemes(), slices.Sorted(maps.Keys(otherNames)))); meant != "" {
			hint = "did you mean " + cmp.Or(otherNames[meant], meant) + "://?"
		}
		return nil, backends.Misconfigured(hint, "unknown backend %q", scheme)
	}
	e, err := open(rawURL)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// isScheme tells whether what stands before the colon can be nothing but a scheme (RFC 3986, section 3.1).
func isScheme(rawURL string) bool {
	scheme, rest, _ := strings.Cut(rawURL, ":")
	return strings.HasPrefix(rest, "//") && strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
}

// Schemes returns the schemes of this build, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(drivers())) }
