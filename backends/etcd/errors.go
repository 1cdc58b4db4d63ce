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
func (d *Driver) classify(err error) error {
	one := d.ofMember(err)
	e, answered := errors.AsType[*rpc.Error](err)
	ofAll := answered && e.Code != rpc.Unimplemented
	hosts := len(d.cfg.url.Addrs)
	if !ofAll && hosts > 1 && backends.IsPermanent(one) && !d.faults.Everywhere(hosts) {
		return err
	}
	return one
}

// ended notes how a request to one member ended.
func (d *Driver) ended(member string, err error) {
	e, answered := errors.AsType[*rpc.Error](err)
	switch {
	case err == nil || answered && e.Code != rpc.Unimplemented:
		d.spoken.Store(true)
		d.faults.Served()
	case !errors.Is(err, context.Canceled): // which says nothing about it
		d.faults.Failed(member, backends.IsPermanent(d.ofMember(err)))
	}
}

// ofMember classifies an error by itself, as if there was no other member.
func (d *Driver) ofMember(err error) error {
	if err == nil || backends.IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		return d.answered(e, err)
	}
	if _, ok := errors.AsType[*rpc.ProtocolError](err); ok && !d.spoken.Load() { // else one answer was broken, and that passes
		return backends.Misconfigured("is this an etcd server, and its port for clients? with TLS the URL begins with etcds://", "%w", err)
	}
	if fault := backendurl.RemediesOf("etcd").Fault(err); fault != nil {
		return fault
	}
	return err
}

// answered classifies what the server itself says.
func (d *Driver) answered(e *rpc.Error, err error) error {
	scheme := d.cfg.url.Scheme
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
		return backends.Denied(fmt.Sprintf("etcdctl role grant-permission ROLE readwrite --prefix %s/", d.cfg.prefix), err)
	}
	return backends.Denied("the user and password of the backend URL; special characters in them are percent-encoded", err)
}
