package kubernetes

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/checkup"
)

const (
	slow        = time.Second // of a round trip
	unreachable = "is this the right cluster, and does a firewall let this host through?"
)

// examination is what is known while a cluster is looked at.
type examination struct {
	checkup.Findings
	s *store
}

// Check implements backends.Store. It asks for a Lease to be made without keeping it.
func (s *store) Check(ctx context.Context, ttl time.Duration) []backends.Finding {
	x := &examination{s: s}
	x.Fine("cluster", "%s, namespace %s, by %s", s.cfg.server, s.cfg.namespace, s.cfg.source)
	x.secrets()
	if !x.reach(ctx) {
		return x.Findings
	}
	if x.rights(ctx) {
		x.writes(ctx)
	}
	if ttl%time.Second != 0 {
		x.Warn("leases", "use whole seconds", "a Lease shows a TTL of %v as %v; leaderrun goes by what its record says", ttl, (ttl + time.Second - 1).Truncate(time.Second))
	}
	return x.Findings
}

// secrets looks who else may read them.
func (x *examination) secrets() {
	cfg := x.s.cfg
	if cfg.withheld {
		x.Warn("credentials", "use https:// in the kubeconfig, or a context without a user", "the user's are not shown to %s, which is not spoken to over TLS", cfg.server)
	}
	x.Readable("kubeconfig", "secrets", cfg.readable)
}

// hello is how a server answers to who needs no rights.
type hello struct {
	version string
	clock   time.Time
}

// reach asks for the version, which needs no rights.
func (x *examination) reach(ctx context.Context) bool {
	said, trip, err := checkup.AskTwice(func() (hello, error) {
		return checkup.Limited(ctx, func(ctx context.Context) (h hello, err error) {
			h.version, h.clock, err = x.s.client.Version(ctx)
			return h, err
		})
	})
	if err != nil {
		x.Failed(checkup.Reachable, unreachable, x.s.classify(ctx, err)) // which names the host
		return false
	}
	if trip.Took > slow {
		x.Warn(checkup.Reachable, "look at the API server and its etcd", "%s %v, which is slow", x.s.cfg.server, trip)
	} else {
		x.Fine(checkup.Reachable, "%s %v", x.s.cfg.server, trip)
	}
	x.version(said.version)
	x.Date("the server's clock", said.clock, trip)
	return true
}

func (x *examination) version(version string) {
	const what = "version"
	var major, minor int
	if n, _ := fmt.Sscanf(version, "v%d.%d", &major, &minor); n == 2 && major == 1 && minor < 14 {
		x.Bad(what, serverHint, "Kubernetes %s has no Leases of coordination.k8s.io/v1", version)
		return
	}
	x.Fine(what, "Kubernetes %s", version)
}

// rights asks the server what we may do.
func (x *examination) rights(ctx context.Context) bool {
	var missing []string
	verbs := []string{"get", "list", "watch", "create", "update"}
	for _, verb := range verbs {
		allowed, err := checkup.Limited(ctx, func(ctx context.Context) (bool, error) {
			return x.s.client.Allowed(ctx, verb)
		})
		if e := x.s.classify(ctx, err); e != nil {
			x.Failed(checkup.Rights, unreachable, e)
			return false
		}
		if !allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) > 0 {
		x.Bad(checkup.Rights, roleHint, "may not %s leases in namespace %s", strings.Join(missing, ", "), x.s.cfg.namespace)
		return false
	}
	x.Fine(checkup.Rights, "may %s leases in namespace %s", strings.Join(verbs, ", "), x.s.cfg.namespace)
	return true
}

// writes asks for a Lease that is not kept: that finds a namespace that is not there, and who stands in the way beside
// roles: quotas and admission webhooks.
func (x *examination) writes(ctx context.Context) {
	const what = "writes"
	_, err := checkup.Limited(ctx, func(ctx context.Context) (struct{}, error) {
		job := rand.Text() // that nobody has
		l := new(state).changed(x.s.cfg, job, backends.Write{Record: backends.Record{Job: job}})
		return struct{}{}, x.s.client.TryCreate(ctx, l)
	})
	if err != nil && !api.Says(err, api.AlreadyExists) {
		x.Failed(what, "ask who looks after the cluster's admission webhooks and quotas", x.s.classify(ctx, err))
		return
	}
	x.Fine(what, "the server would make a Lease")
}
