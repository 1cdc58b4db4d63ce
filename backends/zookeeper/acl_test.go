package zookeeper

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/checkup"
	"github.com/leaderrun/leaderrun/test/servers"
	"github.com/leaderrun/leaderrun/test/suite"
)

// typed is a password that zkCli.sh takes without quotes.
const typed = "hunter2/?@:%"

// closed starts a server whose root is an operator's alone, who has made a chroot by the commands of acl.txt, which the
// documentation shows.
func closed(t *testing.T, o servers.ZooKeeperOptions) *servers.ZooKeeperServer {
	t.Helper()
	commands, err := os.ReadFile("acl.txt")
	if err != nil {
		t.Fatal(err)
	}
	const operator = "addauth digest operator:sesame\n"
	s := servers.ZooKeeper(t, o)
	s.CLI(t, operator+"setAcl / auth::cdrwa")
	s.CLI(t, operator+strings.Replace(string(commands), "PASSWORD", typed, 1))
	return s
}

// TestACL: in a closed root the ready-made chroot is all that its user needs, and nobody else has a right to it.
func TestACL(t *testing.T) {
	t.Parallel()
	s := closed(t, servers.ZooKeeperOptions{MaxSessionTimeout: longest})
	at := func(user string) *driver { return open(t, "zk://"+user+s.Addr()) }
	examine := func(d *driver) suite.Findings {
		return suite.Examined(t, d.Examine(t.Context(), time.Minute), typed)
	}
	const user = "leaderrun:"
	me := user + url.PathEscape(typed) + "@"
	mine := at(me)
	strangers := map[string]*driver{"": at(""), "another user": at("other:" + url.PathEscape(typed) + "@"), "another password": at(user + "x@")}
	steps := suite.On(t)

	examine(mine).Expect(t, checkup.Rights, backends.Fine, "below /leaderrun")
	for name, d := range strangers { // there is no node of the job's yet
		_, err := d.Acquire(t.Context(), newClaim("job"))
		wantDenied(t, name+": the first claim", err)
	}
	g := steps.Acquire(mine, newClaim("job"))
	steps.Renew(mine, g)
	steps.Refused(at(me), newClaim("job"), backends.Held)
	if _, err := mine.Inspect(t.Context(), "job"); err != nil {
		t.Error(err)
	}
	for name, d := range strangers {
		theirs := g
		theirs.Private = nil
		_, acquire := d.Acquire(t.Context(), newClaim("job"))
		_, renew := d.Renew(t.Context(), theirs)
		_, inspect := d.Inspect(t.Context(), "job")
		_, jobs := d.Jobs(t.Context())
		for step, err := range map[string]error{
			"Acquire": acquire, "Renew": renew, "Inspect": inspect, "Jobs": jobs,
			"Finish": d.Finish(t.Context(), theirs, backends.Outcome{State: backends.Done}),
			"Order":  d.Order(t.Context(), suite.NewOrder(backends.Stop, g)),
		} {
			wantDenied(t, name+": "+step, err)
		}
		examine(d).Expect(t, checkup.Rights, backends.Bad, "no right")
	}
	steps.Renew(mine, g)
	steps.Finish(mine, g)
	found := examine(mine)
	found.Expect(t, checkup.Rights, backends.Fine, "below /leaderrun")
	found.Expect(t, "acl", backends.Fine, "")

	elsewhere := open(t, "zk://"+me+s.Addr()+"/elsewhere") // which the root's operator has not made
	_, err := elsewhere.Acquire(t.Context(), newClaim("job"))
	wantDenied(t, "another chroot", err)
	examine(elsewhere).Expect(t, checkup.Rights, backends.Bad, "no right")
}

// wantDenied checks that an error says that the user or the password is at fault, and what helps, and shows no password.
func wantDenied(t *testing.T, what string, err error) {
	t.Helper()
	p, ok := errors.AsType[*backends.PermanentError](err)
	if !ok || p.Kind != backends.Credentials || p.Hint == "" || strings.Contains(err.Error()+p.Hint, typed) {
		t.Errorf("%s: %v (%+v)", what, err, p)
	}
}
