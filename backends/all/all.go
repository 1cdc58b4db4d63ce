// Package all is the only place that names every driver.
package all

import (
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

// opener makes a driver of a URL. It asks no server.
type opener func(rawURL string) (backends.Backend, error)

// drivers returns the drivers of this build by the schemes of their URLs.
func drivers() map[string]opener {
	etcdURL := func(rawURL string) (backends.Backend, error) { return store(etcd.Open(rawURL)) }
	redisURL := func(rawURL string) (backends.Backend, error) { return store(redis.Open(rawURL)) }
	consulURL := func(rawURL string) (backends.Backend, error) { return store(consul.Open(rawURL)) }
	postgresURL := func(rawURL string) (backends.Backend, error) { return store(postgres.Open(rawURL)) }
	zookeeperURL := func(rawURL string) (backends.Backend, error) { return store(zookeeper.Open(rawURL)) }
	return map[string]opener{
		"etcd":            etcdURL,
		"etcds":           etcdURL,
		"file":            func(rawURL string) (backends.Backend, error) { return store(file.Open(rawURL)) },
		"postgres":        postgresURL,
		"postgresql":      postgresURL,
		"k8s":             func(rawURL string) (backends.Backend, error) { return store(kubernetes.Open(rawURL)) },
		"redis":           redisURL,
		"rediss":          redisURL,
		"redis+unix":      redisURL,
		"redis+sentinel":  redisURL,
		"rediss+sentinel": redisURL,
		"redis+cluster":   redisURL,
		"rediss+cluster":  redisURL,
		"consul":          consulURL,
		"consuls":         consulURL,
		"zk":              zookeeperURL,
		"zks":             zookeeperURL,
	}
}

// store keeps a nil pointer from becoming an interface that is not nil.
func store[D backends.Backend](d D, err error) (backends.Backend, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

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
		if meant := spelling.Closest(scheme, Schemes()); meant != "" {
			hint = "did you mean " + meant + "://?"
		}
		return nil, backends.Misconfigured(hint, "unknown backend %q", scheme)
	}
	return open(rawURL)
}

// isScheme tells whether what stands before the colon can be nothing but a scheme (RFC 3986, section 3.1).
func isScheme(rawURL string) bool {
	scheme, rest, _ := strings.Cut(rawURL, ":")
	return strings.HasPrefix(rest, "//") && strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
}

// Schemes returns the schemes of this build, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(drivers())) }
