package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/zookeeper/wire"
	"github.com/leaderrun/leaderrun/internal/checkup"
)

const (
	unreachable = "is the server up with most of its ensemble, and does a firewall let this host through?"
	configNode  = "/zookeeper/config" // says which servers there are; everybody may read it
)

// examined is what one host of the URL says.
type examined struct {
	addr    string
	conn    *wire.Conn // nil: none
	took    time.Duration
	servers []string // of its ensemble
	err     error
}

// granted is how long a session the host grants.
func (e *examined) granted() time.Duration { return e.conn.Session().Timeout }

// examination is what is known while an ensemble is looked at.
type examination struct {
	checkup.Findings
	*store
}

// Check implements backends.Store. It opens one session of the given TTL, and closes it.
func (s *store) Check(ctx context.Context, ttl time.Duration) []backends.Finding {
	x := &examination{store: s}
	ttl = wholeMillis(ttl)
	u := s.cfg.url
	if s.cfg.tls == nil && u.Login.Password() != "" {
		x.InClear("password", u.Addrs, "use TLS: zks://")
	}
	var all, up []*examined
	var session wire.Session
	defer func() {
		for _, e := range all {
			if e.conn != nil {
				e.conn.Close()
			}
		}
	}()
	for _, addr := range u.Addrs {
		e := s.askServer(ctx, addr, session, ttl)
		all = append(all, e)
		if e.err == nil {
			up = append(up, e)
			session = e.conn.Session()
		}
	}
	x.reachable(all)
	if len(up) == 0 {
		return x.Findings
	}
	last := up[len(up)-1].conn // has the session now
	defer last.CloseSession(tidying)
	x.ensemble(all, up)
	x.roles(ctx, up)
	x.timeout(up, ttl)
	if x.rights(ctx, last) {
		x.openness(ctx, last)
	}
	return x.Findings
}

// askServer opens the session at one server, or moves it there: servers of one ensemble know it.
func (s *store) askServer(ctx context.Context, addr string, session wire.Session, ttl time.Duration) *examined {
	ctx, cancel := context.WithTimeout(ctx, checkup.AskLimit)
	defer cancel()
	e := &examined{addr: addr}
	session.Timeout = ttl
	if e.conn, e.err = wire.Dial(ctx, addr, s.cfg.wire(nil), session); e.err != nil {
		return e
	}
	synced, config := wire.NewCall(wire.Sync(s.cfg.dir)), wire.NewCall(wire.GetData(configNode))
	if e.err = e.conn.Do(ctx, synced); e.err == nil { // what opens slowly is warm now
		synced = wire.NewCall(wire.Sync(s.cfg.dir))
		began := time.Now()
		e.err = e.conn.Do(ctx, synced, config)
		e.took = time.Since(began)
	}
	if e.err != nil { // what the calls hold is nobody's
		return e
	}
	e.err = synced.Err
	for line := range strings.Lines(string(config.Data)) {
		if strings.HasPrefix(line, "server.") {
			e.servers = append(e.servers, strings.TrimSpace(line))
		}
	}
	slices.Sort(e.servers)
	return e
}

func (x *examination) reachable(all []*examined) {
	var told []checkup.Answer
	for _, e := range all {
		switch {
		case e.err == nil:
			told = append(told, checkup.Answer{Fine: fmt.Sprintf("%s answers within %v", e.addr, e.took.Round(10*time.Microsecond))})
		case errors.Is(e.err, wire.ErrExpired): // told by ensemble
		default:
			told = append(told, checkup.Answer{Err: x.classify(x.unreached(e.err)), Remedy: unreachable}) // which names the host
		}
	}
	x.Hosts(told)
}

// ensemble makes sure that the URL names one: two would each give a job to somebody.
func (x *examination) ensemble(all, up []*examined) {
	const what = "ensemble"
	for _, e := range all {
		if errors.Is(e.err, wire.ErrExpired) || e.err == nil && !slices.Equal(e.servers, up[0].servers) {
			x.Bad(what, "name the servers of one ensemble", "%s does not belong to the ensemble of %s: each would give a job to somebody", e.addr, up[0].addr)
			return
		}
	}
	isObserver := func(s string) bool { return strings.Contains(s, ":observer") }
	voters := len(slices.DeleteFunc(slices.Clone(up[0].servers), isObserver))
	x.Quorum(what, voters, len(all))
}

// roles tells versions and roles, of servers that answer a four-letter word: srvr is allowed unless it is forbidden.
func (x *examination) roles(ctx context.Context, up []*examined) {
	if x.cfg.tls != nil { // the port of the words may be another
		return
	}
	for _, e := range up {
		text, _ := checkup.Limited(ctx, func(ctx context.Context) (string, error) { return fourLetters(ctx, e.addr, "srvr") })
		version, known := strings.CutPrefix(text, "Zookeeper version: ")
		version, _, _ = strings.Cut(version, "-")
		_, mode, _ := strings.Cut(text, "\nMode: ")
		mode, _, _ = strings.Cut(mode, "\n")
		var major, minor int
		switch n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); {
		case !known:
		case n == 2 && (major < 3 || major == 3 && minor < 5):
			x.Bad("version", "leaderrun needs ZooKeeper 3.5 or later", "%s runs ZooKeeper %s, which is too old", e.addr, version)
		default:
			x.Fine("role", "%s is %s, of ZooKeeper %s", e.addr, mode, version)
		}
	}
}

func fourLetters(ctx context.Context, addr, word string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	const enough = 1 << 16
	text, err := io.ReadAll(io.LimitReader(conn, enough))
	return string(text), err
}

// timeout tells how long a session may be. A server that grants too short a one for a lease is passed over, where another grants
// more.
func (x *examination) timeout(up []*examined, ttl time.Duration) {
	const what = "sessions"
	longest := slices.MaxFunc(up, func(a, b *examined) int { return cmp.Compare(a.granted(), b.granted()) })
	most := longest.granted()
	for _, e := range up {
		short := &tooShortError{addr: e.addr, granted: e.granted(), asked: ttl}
		switch {
		case e.granted() >= ttl:
		case most >= ttl:
			x.Warn(what, short.remedy(), "%v: it serves no run", short)
		case e == longest:
			x.Bad(what, short.remedy(), "%v", short)
		}
	}
	switch {
	case most > ttl:
		x.Warn(what, fmt.Sprintf("--ttl %v, or a shorter minSessionTimeout in the servers' zoo.cfg", most),
			"%s grants none shorter than %v: a TTL of %v becomes that", longest.addr, most, ttl)
	case most == ttl:
		x.Fine(what, "%s grants one of %v", longest.addr, most)
	}
}

// rights asks for a multi that would make a node, was it not for its last operation. ZooKeeper looks at the rights of
// each before that. It says whether the nodes have a common parent yet.
func (x *examination) rights(ctx context.Context, conn *wire.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, checkup.AskLimit)
	defer cancel()
	const nobody = "/zookeeper/no such node"
	for i, dir := range slices.Concat([]string{x.cfg.dir}, parents(x.cfg.dir), []string{""}) {
		list := wire.NewCall(wire.GetChildren(cmp.Or(dir, "/")))
		// A name with a space is no job's.
		try := wire.NewCall(wire.Multi(wire.Create(dir+"/doctor of leaderrun", nil, x.acl(), false), wire.Check(nobody, 0)))
		if err := conn.Do(ctx, list, try); err != nil {
			x.Failed(checkup.Rights, unreachable, err)
			return false
		}
		if wire.Is(list.Err, wire.NoNode) {
			continue
		}
		for _, err := range []error{list.Err, try.Err} {
			if e, ok := errors.AsType[*wire.Error](err); ok && (e.Code != wire.NoNode || e.Path != nobody) {
				x.Failed(checkup.Rights, unreachable, x.classify(err))
				return false
			}
		}
		if i > 0 {
			x.Fine(checkup.Rights, "may make %s, which the first run does", x.cfg.dir)
			return false
		}
		x.Fine(checkup.Rights, "may read and write below %s", dir)
		return true
	}
	return false
}

// openness warns of nodes that everybody may write.
func (x *examination) openness(ctx context.Context, conn *wire.Conn) {
	call := wire.NewCall(wire.GetACL(x.cfg.dir))
	ctx, cancel := context.WithTimeout(ctx, checkup.AskLimit)
	defer cancel()
	if conn.Do(ctx, call) != nil || call.Err != nil {
		return
	}
	if slices.ContainsFunc(call.ACL, func(a wire.ACL) bool { return a.Scheme == "world" && a.Perms&wire.PermWrite != 0 }) {
		x.Warn("acl", "a user in the backend URL, and in zkCli.sh: addauth digest USER:PASSWORD, and setAcl -R "+x.cfg.dir+" auth::cdrwa",
			"everybody who reaches the servers may write %s", x.cfg.dir)
		return
	}
	x.Fine("acl", "not everybody may write %s", x.cfg.dir)
}
