package rpc

import (
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"
)

func TestWhatAMemberSaysOfItselfIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, pbh := drawHeader(t)
		draw := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		want := Status{
			Header: h, Version: rapid.String().Draw(t, "version"), Leader: draw("leader"), Term: draw("term"),
			Committed: draw("committed"), Applied: draw("applied"), Learner: rapid.Bool().Draw(t, "learner"),
			Size: number(t), Quota: number(t),
			Errors: rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "errors"),
		}
		var got Status
		read(t, &etcdserverpb.StatusResponse{
			Header: pbh, Version: want.Version, Leader: want.Leader, RaftTerm: want.Term, RaftIndex: want.Committed,
			RaftAppliedIndex: want.Applied, IsLearner: want.Learner, DbSize: want.Size, DbSizeInUse: number(t),
			DbSizeQuota: want.Quota, Errors: want.Errors, StorageVersion: "3.6",
		}, got.decode)
		same(t, got, want)

		m := Member{Learner: want.Learner}
		var gotMember Member
		read(t, &etcdserverpb.Member{ID: draw("id"), Name: want.Version, IsLearner: m.Learner, PeerURLs: want.Errors, ClientURLs: want.Errors}, gotMember.decode)
		same(t, gotMember, m)
	})
}
