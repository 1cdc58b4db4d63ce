package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/etcd/rpc"
	"github.com/leaderrun/leaderrun/internal/backendurl"
)

const prefixHint = "another program uses these keys: choose another ?prefix="

// refused says that a request has certainly changed nothing.
func refused(err error) bool {
	e, ok := errors.AsType[*rpc.Error](err)
	return ok && e.Refused()
}

// classify tells what no retry mends from outcomes that are unknown: those are all that is not listed here. The fault of one
// of several members ends nothing, until each that was asked since one has served has one.
func (s *store) classify(err error) error {
	one := s.ofMember(err)
	e, answered := errors.AsType[*rpc.Error](err)
	ofAll := answered && e.Code != rpc.Unimplemented
	hosts := len(s.cfg.url.Addrs)
	if !ofAll && hosts > 1 && backends.IsPermanent(one) && !s.faults.Everywhere(hosts) {
		return err
	}
	return one
}

// ended notes how a request to one member ended.
func (s *store) ended(member string, err error) {
	e, answered := errors.AsType[*rpc.Error](err)
	switch {
	case err == nil || answered && e.Code != rpc.Unimplemented:
		s.spoken.Store(true)
		s.faults.Served()
	case !errors.Is(err, context.Canceled): // which says nothing about it
		s.faults.Failed(member, backends.IsPermanent(s.ofMember(err)))
	}
}

// ofMember classifies an error by itself, as if there was no other member.
func (s *store) ofMember(err error) error {
	if err == nil || backends.IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		return s.answered(e, err)
	}
	if _, ok := errors.AsType[*rpc.ProtocolError](err); ok && !s.spoken.Load() { // else one answer was broken, and that passes
		return backends.Misconfigured("is this an etcd server, and its port for clients? with TLS the URL begins with etcds://", "%w", err)
	}
	if fault := backendurl.RemediesOf("etcd").Fault(err); fault != nil {
		return fault
	}
	return err
}

// answered classifies what the server itself says.
func (s *store) answered(e *rpc.Error, err error) error {
	scheme := s.cfg.url.Scheme
	switch {
	case e.Code == rpc.Unimplemented:
		return backends.Misconfigured("leaderrun needs etcd 3.4 or later", "%w", err)
	case !e.Credentials():
		return err
	case strings.Contains(e.Message, "authentication is not enabled"):
		return backends.Misconfigured("this server has no users: leave user and password out of the backend URL", "%w", err)
	case strings.Contains(e.Message, "user name is empty"):
		return backends.Denied("this server wants a user and password: "+scheme+"://USER:PASSWORD@HOST", err)
	case e.Code == rpc.PermissionDenied:
		return backends.Denied(fmt.Sprintf("etcdctl role grant-permission ROLE readwrite --prefix %s/", s.cfg.prefix), err)
	}
	return backends.Denied("the user and password of the backend URL; special characters in them are percent-encoded", err)
}
