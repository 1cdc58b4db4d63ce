package rpc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is what the server answered in the place of a reply, with the status of gRPC: a refusal if Refused says
// so, and else something that leaves the outcome open.
type Error struct {
	Code    Code
	Message string
}

// Code is a status code of gRPC (google.golang.org/grpc/codes).
type Code int

// The codes that callers tell apart.
const (
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	PermissionDenied   Code = 7
	FailedPrecondition Code = 9
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Unavailable        Code = 14
	Unauthenticated    Code = 16
)

// The codes that this package alone tells apart.
const (
	ok       Code = 0
	canceled Code = 1
	unknown  Code = 2
	internal Code = 13
	dataLoss Code = 15
)

// What etcd says, from its api/v3rpc/rpctypes/error.go. The texts are the API: etcd's own client tells errors
// apart by them.
const (
	invalidToken = "etcdserver: invalid auth token"
	oldRevision  = "etcdserver: revision of auth store is old"
	notLeader    = "etcdserver: not leader"
	learner      = "etcdserver: rpc not supported for learner"
)

// What etcd says to a user or password that it does not take. A request without a user reaches an etcd that
// wants one as the user with the empty name.
var badCredentials = []string{
	"etcdserver: authentication failed, invalid user ID or password",
	"etcdserver: authentication is not enabled",
	"etcdserver: user name is empty",
	"etcdserver: user name not found",
	"etcdserver: permission denied",
	"etcdserver: root user does not exist",
	"etcdserver: root user does not have root role",
}

func (e *Error) Error() string {
	return fmt.Sprintf("etcd: %s (code %d)", strings.TrimPrefix(e.Message, "etcdserver: "), e.Code)
}

// Refused says that the request has certainly changed nothing. Any other status leaves it open whether the
// request was applied or still will be, as a lost connection does: Unavailable and DeadlineExceeded, because
// "request timed out" comes from a member that has proposed the request and has not seen it applied, and
// ResourceExhausted, because an etcd without space applies a Txn or Grant and reports the error all the same
// (quotaApplierV3 in server/etcdserver/apply/apply.go).
func (e *Error) Refused() bool {
	switch e.Code {
	case InvalidArgument, NotFound, PermissionDenied, FailedPrecondition, OutOfRange, Unimplemented, Unauthenticated:
		return true
	}
	return false
}

// Credentials says that the server does not take the user, the password or the certificate for this request,
// and that asking again does not help. Unauthenticated is not among it: a token that was not taken, and another
// one, asked for at once, that was not taken either.
func (e *Error) Credentials() bool {
	return e.Code == PermissionDenied || slices.Contains(badCredentials, e.Message)
}

// staleToken says that the request was refused because of its token. etcd looks at the token before it
// proposes a request, and at the revision of the users before it applies one: nothing was changed.
func staleToken(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Code == Unauthenticated || e.Message == invalidToken || e.Message == oldRevision)
}

// shouldRotate says whether the next request had better go to another member.
func shouldRotate(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return true
	}
	switch e.Code {
	case canceled, unknown, DeadlineExceeded, internal, Unavailable, dataLoss, Unauthenticated, Unimplemented:
		return true
	}
	return e.Message == notLeader || e.Message == learner
}

// ProtocolError says that what answers does not speak gRPC, or that an answer was cut.
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string { return e.What }
