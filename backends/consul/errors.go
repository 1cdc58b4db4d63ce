package consul

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/httplimit"
)

const (
	tokenHint  = "a token stands in the backend URL (consul://:TOKEN@HOST), in ?token-file= or in CONSUL_HTTP_TOKEN"
	aclHint    = "the policy that leaderrun needs is in docs/backends.md, section Consul"
	serverHint = "is this a Consul server or agent, and its HTTP port? with TLS the URL begins with consuls://"
	prefixHint = "another program uses this key, or somebody wrote to it: choose another ?prefix=, or delete the key when nothing runs"
	nodeHint   = "sessions belong to the datacenter of the agent that makes them: name an agent of that one"
)

// statusError is an answer that is neither a success nor part of the protocol.
type statusError struct {
	host string
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d: %s", e.host, e.code, e.text) }

// fault is a text in an error of the server or the client library that no retry mends.
type fault struct {
	text string
	kind backends.PermanentKind
	hint string
	host bool // it is the fault of one host, and another one may answer
	deaf bool // only of a host that does not speak HTTP: where one has spoken before, an answer was cut, and that passes
}

// faults are looked for in this order. What is not listed is an unknown outcome: no leader, no servers, rate
// limits, timeouts and broken connections all pass. So does "No path to datacenter", which a server says of each
// datacenter until it has met one of its servers.
var faults = []fault{
	{text: "primary-dc-down"}, // a secondary datacenter cannot ask: it denies all, and means nobody
	{text: "ACL not found", kind: backends.Credentials, hint: tokenHint},
	{text: "anonymous token", kind: backends.Credentials, hint: tokenHint},
	{text: "Permission denied", kind: backends.Credentials, hint: aclHint},

	{text: "Namespaces are a Consul Enterprise feature", kind: backends.Configuration, hint: "this server has no namespaces: leave ?namespace= out"},
	{text: "Partitions are a Consul Enterprise feature", kind: backends.Configuration, hint: "this server has no partitions: leave ?partition= out"},
	{text: "cross datacenter lock must be created at server agent", kind: backends.Configuration, hint: nodeHint},
	{text: "Invalid Session TTL", kind: backends.Configuration, hint: "the server keeps shorter or longer leases only: see --ttl, and session_ttl_min of the server"},
	{text: "too large", kind: backends.Configuration, hint: "the server's kv_max_value_size and txn_max_req_len must allow 512 kB, as they do by default"},
	{text: "Client sent an HTTP request to an HTTPS server", kind: backends.Configuration, hint: "this port speaks TLS: consuls://", host: true},
	{text: "malformed HTTP", kind: backends.Configuration, hint: serverHint, host: true, deaf: true},
}

// faultOf returns the fault that an error is; without a kind: none.
func (r *roundTripper) faultOf(err error) fault {
	for _, f := range faults {
		if strings.Contains(err.Error(), f.text) && !(f.deaf && r.spoken.Load()) {
			return f
		}
	}
	return fault{}
}

// ofTLS returns what no retry mends of TLS, or nil.
func ofTLS(err error) *backends.PermanentError { return backendurl.RemediesOf("consul").Fault(err) }

// classify tells what no retry mends from outcomes that are unknown. The fault of one of several hosts ends nothing, until each
// that was asked since one has served has one.
func (r *roundTripper) classify(err error) error {
	if err == nil || backends.IsPermanent(err) {
		return err
	}
	if e, ok := errors.AsType[*url.Error](err); ok { // it repeats a URL of which the host is not the one asked
		err = e.Err
	}
	err = httplimit.BriefError(err)
	if hosts := len(r.cfg.url.Addrs); hosts > 1 && r.isHostFault(err) && !r.faulty.Everywhere(hosts) {
		return err
	}
	if fault := ofTLS(err); fault != nil {
		return fault
	}
	f := r.faultOf(err)
	p := &backends.PermanentError{Err: err, Kind: f.kind, Hint: f.hint}
	e, ok := errors.AsType[*statusError](err)
	switch {
	case ok && e.code == http.StatusForbidden && p.Kind == 0 && !strings.Contains(e.text, "primary-dc-down"):
		p.Kind, p.Hint = backends.Credentials, aclHint
	case ok && e.code == http.StatusUnauthorized:
		p.Kind, p.Hint = backends.Credentials, tokenHint
	case ok && e.code >= 300 && e.code < 400:
		p.Kind, p.Hint = backends.Configuration, serverHint
	case p.Kind == 0:
		return err
	}
	if p.Kind == backends.Credentials && r.rotate() {
		return fmt.Errorf("%w; the token file holds another token now", err)
	}
	return p
}

// isHostFault says whether an error is about one host: its certificate, what it speaks, where it redirects.
func (r *roundTripper) isHostFault(err error) bool {
	e, answered := errors.AsType[*statusError](err)
	return r.faultOf(err).host || ofTLS(err) != nil || answered && e.code >= 300 && e.code < 400
}

// notConsul is the error for a page that Consul would not send. It passes: a load balancer sends such pages while it
// knows no server.
func (r *roundTripper) notConsul() error {
	host := r.hosts.Current()
	r.hosts.Leave(host)
	return fmt.Errorf("%s: the answer is not Consul's: %s", host, serverHint)
}
