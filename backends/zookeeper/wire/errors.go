package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

var (
	// ErrExpired says that the servers know no such session (any more), or not with that password. Its ephemeral nodes
	// are gone, or will be in a moment.
	ErrExpired = errors.New("the session has expired")
	// ErrClosed says that the connection was closed by us.
	ErrClosed = errors.New("the connection is closed")
)

// Error is what the server answered in the place of a reply.
type Error struct {
	Code  Code
	Path  string
	Index int // of a Multi: the operation that failed first
}

// Code says what is wrong (KeeperException.Code).
type Code int32

// The codes that callers tell apart.
const (
	Unimplemented  Code = -6
	BadArguments   Code = -8
	NoNode         Code = -101
	NoAuth         Code = -102
	BadVersion     Code = -103
	NodeExists     Code = -110
	NotEmpty       Code = -111
	SessionExpired Code = -112
	InvalidACL     Code = -114
	AuthFailed     Code = -115
	SessionMoved   Code = -118
	NeedsSASL      Code = -124
	QuotaExceeded  Code = -125

	codeOK       Code = 0
	codeNotTried Code = -2 // RUNTIMEINCONSISTENCY: an operation of a Multi after the one that failed
)

var texts = map[Code]string{
	Unimplemented:  "the server does not know this request",
	BadArguments:   "bad arguments",
	NoNode:         "no such node",
	NoAuth:         "no right to do this",
	BadVersion:     "another version",
	NodeExists:     "the node exists",
	NotEmpty:       "the node has children",
	SessionExpired: "the session has expired",
	InvalidACL:     "the server does not take these rights",
	AuthFailed:     "authentication failed",
	SessionMoved:   "the session has moved to another connection",
	NeedsSASL:      "the server demands SASL",
	QuotaExceeded:  "a quota is used up",
}

func (c Code) String() string { return cmp.Or(texts[c], fmt.Sprintf("error %d", int32(c))) }

func (e *Error) Error() string {
	if e.Path == "" {
		return "zookeeper: " + e.Code.String()
	}
	return fmt.Sprintf("zookeeper: %s: %s", e.Path, e.Code)
}

// Is makes an answer that the session has expired the same as ErrExpired.
func (e *Error) Is(target error) bool { return target == ErrExpired && e.Code == SessionExpired }

// Is says whether an error is an answer with one of the codes.
func Is(err error, codes ...Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// ProtocolError says that what answers does not speak ZooKeeper's protocol, or that a reply was cut.
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string { return "the reply makes no sense: " + e.What }
