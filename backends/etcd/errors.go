package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
)

const (
	caHint     = "?ca=FILE names the authority that signed the server's certificate, ?server-name= the name in it"
	certHint   = "this server wants a client certificate that it knows: ?cert=FILE&key=FILE"
	prefixHint = "another program uses these keys: choose another ?prefix="
)

func configuration(hint, format string, args ...any) error {
	return &backends.PermanentError{Kind: backends.Configuration, Err: fmt.Errorf(format, args...), Hint: hint}
}

func credentials(hint string, err error) error {
	return &backends.PermanentError{Kind: backends.Credentials, Err: err, Hint: hint}
}

func isPermanent(err error) bool {
	_, ok := errors.AsType[*backends.PermanentError](err)
	return ok
}

// refused says that a request has certainly changed nothing.
func refused(err error) bool {
	e, ok := errors.AsType[*rpc.Error](err)
	return ok && e.Refused()
}

// classify tells what no retry mends from outcomes that are unknown: those are all that is not listed here.
func (d *Driver) classify(err error) error {
	if err == nil || isPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e, answered := errors.AsType[*rpc.Error](err)
	several := len(d.cfg.url.Addrs) > 1
	switch {
	case several && (rpc.Untrusted(err) || answered && e.Code == rpc.Unimplemented): // the fault of one member
		return err
	case answered:
		return d.answered(e, err)
	case !rpc.Untrusted(err):
		return err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return configuration(caHint, "%w", err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return configuration("this server speaks no TLS on this port: etcd://", "%w", err)
	}
	if strings.Contains(err.Error(), "protocol version not supported") {
		return configuration("the server wants another version of TLS", "%w", err)
	}
	return credentials(certHint, err)
}

// answered classifies what the server itself says.
func (d *Driver) answered(e *rpc.Error, err error) error {
	scheme := d.cfg.url.Scheme
	switch {
	case e.Code == rpc.Unimplemented:
		return configuration("leaderrun needs etcd 3.4 or later", "%w", err)
	case !e.Credentials():
		return err
	case strings.Contains(e.Message, "authentication is not enabled"):
		return configuration("this server has no users: leave user and password out of the backend URL", "%w", err)
	case strings.Contains(e.Message, "user name is empty"):
		return credentials("this server wants a user and password: "+scheme+"://USER:PASSWORD@HOST", err)
	case e.Code == rpc.PermissionDenied:
		return credentials(fmt.Sprintf("etcdctl role grant-permission ROLE readwrite --prefix %s/", d.cfg.prefix), err)
	}
	return credentials("the user and password of the backend URL; special characters in them are percent-encoded", err)
}
