package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leaderrun/leaderrun/internal/httplimit"
)

func (c *Client) leases() string { return group + url.PathEscape(c.cfg.Namespace) + "/leases" }

func (c *Client) lease(name string) string { return c.leases() + "/" + url.PathEscape(name) }

// Get returns a Lease as most members of the store behind the server have it: a request that names no resource version
// is never answered from a cache that is behind. No such Lease is an *Error with the reason NotFound.
func (c *Client) Get(ctx context.Context, name string) (*Lease, error) {
	return c.one(ctx, question{method: http.MethodGet, path: c.lease(name)})
}

// Create makes a Lease and returns it as it is kept. AlreadyExists: there is one of its name.
func (c *Client) Create(ctx context.Context, l *Lease) (*Lease, error) {
	return c.one(ctx, question{method: http.MethodPost, path: c.leases(), body: l})
}

// TryCreate asks whether Create would be allowed. Nothing is kept.
func (c *Client) TryCreate(ctx context.Context, l *Lease) error {
	_, err := c.one(ctx, question{method: http.MethodPost, path: c.leases(), params: url.Values{"dryRun": {"All"}}, body: l})
	return err
}

// Update writes a Lease, if it is still the version that l was read as, and returns it as it is kept. Conflict: it is
// not, or it was deleted.
func (c *Client) Update(ctx context.Context, l *Lease) (*Lease, error) {
	return c.one(ctx, question{method: http.MethodPut, path: c.lease(l.Name), body: l})
}

func (c *Client) one(ctx context.Context, q question) (*Lease, error) {
	l := new(Lease)
	if _, err := c.ask(ctx, q, l); err != nil {
		return nil, err
	}
	if !l.isNamed() || l.UID == "" && q.params == nil || l.ResourceVersion == "" && q.params == nil {
		return nil, c.foreign(errNotLease)
	}
	c.spoken.Store(true)
	return l, nil
}

// Listed is what a list says of a Lease.
type Listed struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
}

// List returns the Leases that a label selector chooses, limit at most, and what to go on with; "": that is all. Of each it reads no
// more than it returns: all of a Lease takes three times as long.
func (c *Client) List(ctx context.Context, selector string, limit int, from string) (leases []Listed, next string, err error) {
	params := url.Values{"labelSelector": {selector}, "limit": {strconv.Itoa(limit)}}
	if from != "" {
		params.Set("continue", from)
	}
	var list struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []struct {
			Metadata Listed `json:"metadata"`
		} `json:"items"`
	}
	if _, err := c.ask(ctx, question{method: http.MethodGet, path: c.leases(), params: params}, &list); err != nil {
		return nil, "", err
	}
	for _, item := range list.Items {
		leases = append(leases, item.Metadata)
	}
	if list.Kind != "LeaseList" || slices.ContainsFunc(leases, func(l Listed) bool { return !isName(l.Name) }) {
		return nil, "", c.foreign(errNotLease)
	}
	c.spoken.Store(true)
	return leases, list.Metadata.Continue, nil
}

// Version returns the server's version, like v1.34.2, and its clock in whole seconds; a zero time: it shows none.
func (c *Client) Version(ctx context.Context) (version string, clock time.Time, err error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	clock, err = c.ask(ctx, question{method: http.MethodGet, path: "/version"}, &v)
	return httplimit.Brief(v.GitVersion), clock, err
}

// Ready returns nil when the server says that all of it has started.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.ask(ctx, question{method: http.MethodGet, path: "/readyz"}, nil)
	return err
}

// ReadyToAnybody is Ready without a token. Most servers answer that to anybody; whom a certificate names they know all the same.
func (c *Client) ReadyToAnybody(ctx context.Context) error {
	_, err := c.ask(ctx, question{method: http.MethodGet, path: "/readyz", anonymous: true}, nil)
	return err
}

// Allowed asks whether we may do something with Leases of the namespace.
func (c *Client) Allowed(ctx context.Context, verb string) (bool, error) {
	var reply struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	_, err := c.ask(ctx, question{
		method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		body: map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": map[string]string{
				"namespace": c.cfg.Namespace, "verb": verb, "group": "coordination.k8s.io", "resource": "leases",
			}},
		},
	}, &reply)
	return reply.Status.Allowed, err
}
