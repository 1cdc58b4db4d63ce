package rpc_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leaderrun/leaderrun/test/servers"
)

func TestStatusAndMembersAsTheOfficialClientSeesThem(t *testing.T) {
	t.Parallel()
	set := servers.EtcdCluster(t, 3)
	set.Agreed(t)
	s := set.Members[1]
	ctx, c, o := within(t), client(t, s.Endpoint()), official(t, clientv3.Config{}, s.Endpoint())
	got, err := c.Status(ctx)
	want, theirErr := o.Status(ctx, s.Endpoint())
	if err != nil || theirErr != nil {
		t.Fatal(err, theirErr)
	}
	if got.Version != want.Version || got.Leader != want.Leader || got.Leader == 0 || got.Header.ClusterID != want.Header.ClusterId ||
		got.Header.MemberID != want.Header.MemberId || got.Term != want.RaftTerm || got.Quota != want.DbSizeQuota || got.Committed == 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	members, err := c.Members(ctx)
	all, theirErr := o.MemberList(ctx)
	if err != nil || theirErr != nil || len(members) != len(all.Members) {
		t.Fatalf("got %+v, %v; want %+v, %v", members, err, all, theirErr)
	}
	for i, m := range all.Members {
		if members[i].Learner != m.IsLearner {
			t.Errorf("got %+v, want %+v", members[i], m)
		}
	}
}
