// Package wire speaks the part of ZooKeeper's client protocol that leases need: a dozen requests (zookeeper.jute and
// ZooDefs.OpCode of ZooKeeper's source), framed by hand.
//
// Every request is explicit: it goes out once, on one connection that the caller has opened, under a session that the
// caller knows, and ends with its context. There is no retry, no ping by a timer and no way from one server to another
// but the caller's. A connection on which a request was not answered in time is closed: replies have no other order
// than that of the requests.
package wire

import (
	"slices"
	"time"
)

// Session is what a server and its client know of each other, over more than one connection.
type Session struct {
	ID       int64         // 0: a new one is asked for
	Password []byte        // which goes with the ID
	Timeout  time.Duration // asked for, or as granted; in whole milliseconds
}

// Stat is what a server keeps about a node beside its data (zookeeper.jute, data.Stat).
type Stat struct {
	Czxid, Mzxid   int64 // the transactions that created it and wrote it last
	Version        int32 // how often it was written since it was created
	EphemeralOwner int64 // the session that it goes with; 0: none
	DataLength     int32
}

// ACL is one right to a node.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

// All rights, and that to write.
const (
	PermAll   int32 = 31
	PermWrite int32 = 1 << 1
)

// World gives all rights to everybody.
func World() []ACL { return []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"}} }

// Creator gives all rights to those whom the connection that creates a node is authenticated as.
func Creator() []ACL { return []ACL{{Perms: PermAll, Scheme: "auth"}} }

// Op is one request, or one operation of a Multi. The functions of this package make them.
type Op struct {
	Code  int32 // the number of the request (ZooDefs.OpCode)
	Watch bool  // what is read is watched
	Ops   []Op  // of a Multi

	path string
	body encoder
}

// The numbers of requests (ZooDefs.OpCode).
const (
	opCreate       int32 = 1
	opDelete       int32 = 2
	opExists       int32 = 3
	opGetData      int32 = 4
	opSetData      int32 = 5
	opGetACL       int32 = 6
	opGetChildren  int32 = 8
	opSync         int32 = 9
	opPing         int32 = 11
	opCheck        int32 = 13
	opMulti        int32 = 14
	opAuth         int32 = 100
	opCloseSession int32 = -11
	opError        int32 = -1 // of a result
)

// watchable is a request that reads, and may be answered once more when what it has read changes.
func watchable(code int32, path string, watch bool) Op {
	return Op{Code: code, Watch: watch, path: path, body: encoder{}.string(path).bool(watch)}
}

// GetData reads a node.
func GetData(path string) Op { return watchable(opGetData, path, false) }

// WatchData reads a node and has its next change told to Config.Changed. Where there is no such node nothing is told: that
// is what Exists is for.
func WatchData(path string) Op { return watchable(opGetData, path, true) }

// Exists asks for the Stat of a node; with watch, the first change of it afterwards is told to Config.Changed, also when
// there is no such node yet.
func Exists(path string, watch bool) Op { return watchable(opExists, path, watch) }

// GetChildren lists the names of a node's children.
func GetChildren(path string) Op { return watchable(opGetChildren, path, false) }

// GetACL reads the rights to a node.
func GetACL(path string) Op { return Op{Code: opGetACL, path: path, body: encoder{}.string(path)} }

// Sync brings the server that is asked up to what its leader knows when it gets the request. What is read after it on
// the same connection is at least as new.
func Sync(path string) Op { return Op{Code: opSync, path: path, body: encoder{}.string(path)} }

// Ping keeps the session alive, as every request does.
func Ping() Op { return Op{Code: opPing} }

// CloseSession ends the session, and with it its ephemeral nodes.
func CloseSession() Op { return Op{Code: opCloseSession} }

// Multi does all operations or none. They are Create, SetData, Delete and Check.
func Multi(ops ...Op) Op {
	var e encoder
	for _, o := range ops {
		e = append(e.int32(o.Code).bool(false).int32(-1), o.body...)
	}
	return Op{Code: opMulti, Ops: ops, body: e.int32(-1).bool(true).int32(-1)}
}

// Create makes a node, one that goes with the session if it is ephemeral. Its Stat comes with a SetData after it: within a
// multi, servers forget that they were asked for it (create2).
func Create(path string, data []byte, acl []ACL, ephemeral bool) Op {
	e := encoder{}.string(path).buffer(data).int32(int32(len(acl))) //nolint:gosec // one
	for _, a := range acl {
		e = e.int32(a.Perms).string(a.Scheme).string(a.ID)
	}
	flags := int32(0)
	if ephemeral {
		flags = 1
	}
	return Op{Code: opCreate, path: path, body: e.int32(flags)}
}

// SetData writes a node of a version. A version of -1 is every version.
func SetData(path string, data []byte, version int32) Op {
	return Op{Code: opSetData, path: path, body: encoder{}.string(path).buffer(data).int32(version)}
}

// Delete deletes a node of a version that has no children.
func Delete(path string, version int32) Op {
	return Op{Code: opDelete, path: path, body: encoder{}.string(path).int32(version)}
}

// Check demands that a node exists in a version.
func Check(path string, version int32) Op {
	return Op{Code: opCheck, path: path, body: encoder{}.string(path).int32(version)}
}

// Call is a request and its answer.
type Call struct {
	Op Op

	// Err is the server's answer in the place of a reply, an *Error. Of a Multi, its Index says which operation was the
	// first that failed.
	Err      error
	Data     []byte
	Stat     Stat
	Children []string
	ACL      []ACL
	Stats    []Stat // of a Multi: one for each operation, zero for those that are no SetData

	xid  int32
	done chan struct{}
}

// NewCall makes a call of a request.
func NewCall(op Op) *Call { return &Call{Op: op, done: make(chan struct{})} }

// decode reads the body of a reply.
func (c *Call) decode(d *decoder) {
	switch c.Op.Code {
	case opGetData:
		c.Data = d.buffer()
		c.Stat = d.stat()
	case opExists, opSetData:
		c.Stat = d.stat()
	case opGetChildren:
		n := d.count(4)
		c.Children = slices.Grow(c.Children, n)
		for range n {
			c.Children = append(c.Children, d.string())
		}
	case opGetACL:
		n := d.count(12)
		c.ACL = slices.Grow(c.ACL, n)
		for range n {
			c.ACL = append(c.ACL, ACL{Perms: d.int32(), Scheme: d.string(), ID: d.string()})
		}
		c.Stat = d.stat()
	case opCreate, opSync:
		_ = d.string()
	case opMulti:
		c.decodeMulti(d)
	}
}

// decodeMulti reads the results of a Multi. Of one that failed they are errors all: those before the first that failed
// say OK, those after it that they were not tried.
func (c *Call) decodeMulti(d *decoder) {
	failed := false // a result is that of a failure
	for i := 0; ; i++ {
		code := d.int32()
		done := d.bool()
		_ = d.int32()
		switch {
		case d.err != nil:
			return
		case done && i < len(c.Op.Ops):
			d.fail("a multi with %d results for %d operations", i, len(c.Op.Ops))
			return
		case done && failed && c.Err == nil:
			d.fail("a multi that has failed for nothing")
			return
		case done:
			return
		case i >= len(c.Op.Ops), code != opError && code != c.Op.Ops[i].Code:
			d.fail("a multi with a result of something else")
			return
		}
		var s Stat
		switch code {
		case opError:
			failed = true
			if e := Code(d.int32()); e != codeOK && e != codeNotTried && c.Err == nil {
				c.Err = &Error{Code: e, Index: i, Path: c.Op.Ops[i].path}
			}
		case opCreate:
			_ = d.string()
		case opSetData:
			s = d.stat()
		}
		c.Stats = append(c.Stats, s)
	}
}
