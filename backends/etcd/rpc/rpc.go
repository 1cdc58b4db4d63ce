// Package rpc speaks the part of etcd's API that leases need: ten calls of its gRPC services KV, Lease,
// Watch, Auth, Maintenance and Cluster (etcd's api/etcdserverpb/rpc.proto), framed by hand on net/http's HTTP/2.
//
// Every request is explicit: it goes to one endpoint, once, and ends with its context. There is no retry, no
// background keep-alive and no balancer. A failed request makes the next one go to another endpoint.
package rpc

import (
	"crypto/tls"

	"github.com/leaderrun/leaderrun/internal/backendurl"
)

// Config says where the members of one etcd cluster are, and who asks.
type Config struct {
	Endpoints []string          // HOST:PORT, at least one
	TLS       *tls.Config       // nil: none
	Login     *backendurl.Login // without a user: no authentication, or by client certificate

	// Ended, if it is not nil, is told how each request to an endpoint has ended, before its caller is. Without an error it was
	// served, or it was a watch that stood. It must not block.
	Ended func(endpoint string, err error)
}

// Header comes with every reply.
type Header struct {
	ClusterID, MemberID uint64
	Revision            int64 // of the store, when the request was served
}

// KeyValue is one key as the store has it.
type KeyValue struct {
	Key, Value     []byte
	CreateRevision int64
	ModRevision    int64
	Lease          int64
}

// Range reads a key, or all keys from Key up to and without End. It is linearizable.
type Range struct {
	Key, End []byte
	Limit    int64 // 0: none
	KeysOnly bool
}

// RangeReply is the answer to a Range.
type RangeReply struct {
	Header Header
	KVs    []KeyValue
	More   bool
}

// Compare is a condition of a Txn: a revision or the lease of a key is equal to Value. The revision of a key that
// does not exist is zero.
type Compare struct {
	Key   []byte
	Of    Target
	Value int64
}

// Target says what a Compare looks at.
type Target int

// The targets, with the numbers of etcd's Compare.CompareTarget.
const (
	CreateRevision Target = 1
	ModRevision    Target = 2
	LeaseID        Target = 4
)

// Op is one operation of a Txn. Exactly one field is set.
type Op struct {
	Range  *Range
	Put    *Put
	Delete []byte // a key
}

// Put writes a key, under a lease unless that is 0.
type Put struct {
	Key, Value []byte
	Lease      int64
}

// Txn does Then in one atomic step if all conditions hold, and else Else.
type Txn struct {
	If         []Compare
	Then, Else []Op
}

// TxnReply is the answer to a Txn.
type TxnReply struct {
	Header    Header
	Succeeded bool
	Ranges    []RangeReply // of the branch that was taken, one for each Range in it
}

// LeaseReply is the answer to Grant, KeepAlive and TimeToLive.
type LeaseReply struct {
	Header Header
	ID     int64
	TTL    int64 // s; 0 or less: there is no such lease
}

// Event is a change that a watch reports.
type Event struct {
	Deleted bool
	KV      KeyValue // of a deletion: the key and ModRevision alone
}

// WatchReply carries changes, in the order of their revisions. The first one has none: the watch stands.
type WatchReply struct {
	Header  Header
	Created bool
	Events  []Event
}

// Status is what a member says about itself. A member older than what a field needs leaves it zero.
type Status struct {
	Header  Header
	Version string // like 3.6.16
	Leader  uint64 // the member that it follows; 0: it knows none
	Term    uint64

	Committed, Applied uint64   // how far the log is that it knows, and how much of it its store has. Since 3.4
	Errors             []string // the alarms of the cluster, like "memberID:1 alarm:NOSPACE ", and "no leader". Since 3.4
	Learner            bool     // copies the log and serves nobody. Since 3.4

	Size, Quota int64 // of the database, bytes; Quota since 3.6
}

// Member is a member of a cluster, whether or not it runs.
type Member struct{ Learner bool }
