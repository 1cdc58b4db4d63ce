package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/kubernetes/api"
	"github.com/leaderrun/leaderrun/internal/backendurl"
	"github.com/leaderrun/leaderrun/internal/credentialplugin"
)

const (
	caHint        = "certificate-authority of the kubeconfig names who signed the server's certificate, tls-server-name the name in it"
	userHint      = "the kubeconfig or the service account is of another cluster, or has expired: kubectl auth whoami"
	roleHint      = "a Role with get, list, watch, create and update of leases in coordination.k8s.io, as docs/backends.md shows it"
	admissionHint = "an admission webhook or policy of the cluster stands in the way: its message says what it wants of Leases in this namespace"
	prefixHint    = "choose another ?prefix=, or delete the Lease when nothing runs"
	serverHint    = "leaderrun needs an API server of Kubernetes 1.14 or later, with coordination.k8s.io/v1"

	readyWait = 2 * time.Second
)

// isMissing says whether the server knows no such Lease. It says NotFound of kinds and namespaces too.
func isMissing(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Reason == api.NotFound && e.Kind == "leases"
}

// classify tells what no retry mends from outcomes that are unknown: those are all that is not listed here.
func (s *store) classify(ctx context.Context, err error) error {
	if err == nil || backends.IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, credentialplugin.ErrMissing) {
		return backends.Misconfigured("exec of the kubeconfig names it; cron has another $PATH than a terminal: write its whole path", "%w", err)
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return s.answered(ctx, e, err)
	}
	return ofTransport(err)
}

// ofTransport classifies what happened before there was an answer.
func ofTransport(err error) error {
	if p, ok := errors.AsType[*api.ProtocolError](err); ok && !p.Spoken {
		return backends.Misconfigured("is the server of the kubeconfig an API server of Kubernetes?", "%w", err)
	}
	remedies := backendurl.TLSRemedies{
		CA:    caHint,
		Cert:  "this server wants a client certificate that it knows: client-certificate and client-key of the kubeconfig",
		Plain: "the server of the kubeconfig begins with http://, or is another one",
	}
	if fault := remedies.Fault(err); fault != nil {
		return fault
	}
	return err
}

// answered classifies what the server itself says.
func (s *store) answered(ctx context.Context, e *api.Error, err error) error {
	switch {
	case strings.Contains(e.Message, "HTTP request to an HTTPS server"):
		return backends.Misconfigured("the server of the kubeconfig begins with https://", "%w", err)
	case strings.Contains(e.Message, "denied the request"), strings.Contains(e.Message, "denied request"):
		return backends.Misconfigured(admissionHint, "%w", err)
	case e.Code == http.StatusUnauthorized:
		if e.Passing || s.starting(ctx) {
			return err
		}
		return backends.Denied(userHint, err)
	case e.Code == http.StatusForbidden:
		return s.forbidden(ctx, e, err)
	case e.Reason == api.NotFound && e.Kind == "namespaces":
		return backends.Misconfigured("kubectl create namespace "+s.cfg.namespace, "%w", err)
	case e.Code == http.StatusNotFound:
		if s.starting(ctx) {
			return err
		}
		return backends.Misconfigured(serverHint, "%w", err)
	case e.Reason == api.Invalid:
		return backends.Misconfigured("a Lease takes 256 kB of annotations", "%w", err)
	case e.Code/100 == 3 || e.Code == http.StatusMethodNotAllowed:
		return backends.Misconfigured(serverHint, "%w", err)
	}
	return err
}

func (s *store) forbidden(ctx context.Context, e *api.Error, err error) error {
	switch {
	case e.Reason == "": // of something between us and the server
		return err
	case strings.Contains(e.Message, "is being terminated"):
		return backends.Misconfigured("choose another namespace", "%w", err)
	case strings.Contains(e.Message, "exceeded quota"):
		return backends.Misconfigured("the ResourceQuota of the namespace must allow one Lease per job", "%w", err)
	case s.starting(ctx):
		return err
	}
	return backends.Denied(roleHint, err)
}

// starting asks a server that lets nobody in, or knows no Leases, whether it has only begun: until it has read roles and
// service accounts it may refuse everybody, and that passes. It is asked as anybody, since a credential that it cannot check
// yet is refused here too, and as ourselves where it tells that to nobody else. A server that does not answer to the question
// as one that has started passes too, unless it is the credential that it does not take. One that shows its state to nobody has started
// if it says what we may do: for that it has read the roles.
func (s *store) starting(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	err := s.client.ReadyToAnybody(ctx)
	e, answered := errors.AsType[*api.Error](err)
	if answered && e.Code < http.StatusInternalServerError {
		err = s.client.Ready(ctx)
		e, answered = errors.AsType[*api.Error](err)
	}
	if answered && e.Code == http.StatusForbidden {
		_, err = s.client.Allowed(ctx, "get")
		e, answered = errors.AsType[*api.Error](err)
	}
	return err != nil && !(answered && e.Code == http.StatusUnauthorized)
}
