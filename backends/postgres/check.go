package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
	"github.com/leaderrun/leaderrun/internal/checkup"
)

const (
	oldest = 100000 // server_version_num of 10

	unreachable = "is the server up, does it listen there (listen_addresses), and does a firewall let this host through?"
	oneServer   = "name the hosts of one cluster"
)

// facts are what a server says of itself and of the table.
type facts struct {
	version     int
	recovery    bool
	now         time.Time
	fsync       string
	fullPages   string
	standbys    int // that are connected, as far as we may see
	synchronous int // 1: commits wait for standbys
	table       bool
	unlogged    bool
	rights      bool
	mayCreate   bool
	pid         string // of the process that answers
	identity    string
}

// aboutServer is the statement that asks for facts; it needs no table, and no right but to connect.
func aboutServer(table string) string {
	name := literal(table)
	schema := `current_schema()`
	if quoted, _, found := strings.Cut(table, `".`); found {
		schema = literal(strings.ReplaceAll(strings.TrimPrefix(quoted, `"`), `""`, `"`))
	}
	has := func(right string) string {
		return `has_table_privilege(to_regclass(` + name + `), '` + right + `')`
	}
	return `SELECT current_setting('server_version_num'), pg_is_in_recovery(), ` + millis("clock_timestamp()") + `,` +
		` current_setting('fsync'), current_setting('full_page_writes'), (SELECT count(*) FROM pg_stat_replication),` +
		` CASE WHEN ` + waits + ` THEN 1 ELSE 0 END,` +
		` to_regclass(` + name + `) IS NOT NULL,` +
		` coalesce((SELECT relpersistence <> 'p' FROM pg_class WHERE oid = to_regclass(` + name + `)), false),` +
		` coalesce(` + has("SELECT") + ` AND ` + has("INSERT") + ` AND ` + has("UPDATE") + `, false),` +
		` coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = ` + schema + `), false),` +
		` pg_backend_pid(), CASE WHEN pg_is_in_recovery() THEN '' ELSE ` + identity + ` END`
}

func readFacts(reply wire.Reply) (*facts, error) {
	if len(reply.Rows) != 1 || len(reply.Rows[0]) != 1 {
		return nil, errReply
	}
	in := fields{row: reply.Rows[0][0]}
	f := &facts{
		version: int(in.int()), recovery: in.bool(), now: time.UnixMilli(in.int()), fsync: in.text(), fullPages: in.text(),
		standbys: int(in.int()), synchronous: int(in.int()), table: in.bool(), unlogged: in.bool(), rights: in.bool(),
		mayCreate: in.bool(), pid: in.text(), identity: in.text(),
	}
	if in.wrong || len(in.row) > 0 {
		return nil, errReply
	}
	return f, nil
}

// facts asks the server that takes what is written.
func (s *store) facts(ctx context.Context) (f *facts, err error) {
	_, err = s.client.Ask(ctx, []wire.Statement{{SQL: s.sql.about}}, func(r wire.Reply) (err error) {
		f, err = readFacts(r)
		if err == nil && f.recovery {
			err = wire.ErrStandby
		}
		return err
	})
	return f, s.classify(err)
}

// notes says what the server cannot promise as it is set up. It is not worth failing for.
func (s *store) notes(ctx context.Context) []string {
	f, err := s.facts(ctx)
	if err != nil {
		return nil
	}
	var notes []string
	if f.unlogged {
		notes = append(notes, "the table "+s.cfg.prefix+" is UNLOGGED: a crash of the server empties it")
	}
	if f.fsync == "off" {
		notes = append(notes, "fsync is off: a crash of the server's host may take back what was granted")
	}
	if f.standbys > 0 && f.synchronous == 0 {
		notes = append(notes, "no standby is synchronous: after a failover two runs may overlap while the old primary still answers")
	}
	return notes
}

// answer is what one host of the URL says.
type answer struct {
	addr      string
	facts     *facts
	version   string // as people write it
	encrypted bool
	pooled    bool // another process answers than the one that took the connection
	trip      checkup.Trip
	err       error
}

// examination is what is known while a database is looked at.
type examination struct {
	checkup.Findings
	s       *store
	primary *facts // of the first host that takes what is written; nil: there is none
}

// Check implements backends.Store. It changes nothing.
func (s *store) Check(ctx context.Context, _ time.Duration) []backends.Finding {
	x := &examination{s: s}
	x.roles(x.hosts(ctx))
	if x.primary != nil {
		x.durability()
		x.standbys()
		if s := x.rights(ctx); s != nil {
			x.mark(s)
		}
	}
	return x.Findings
}

// hosts asks all hosts at once, and returns those that answer.
func (x *examination) hosts(ctx context.Context) []*answer {
	all := checkup.AskAll(ctx, x.s.cfg.wire.Addrs, x.s.askHost)
	var told []checkup.Answer
	var up []*answer
	for _, a := range all {
		if a.err != nil {
			told = append(told, checkup.Answer{Err: x.s.classify(a.err), Remedy: unreachable}) // which names the host
			continue
		}
		up = append(up, a)
		role := "the primary"
		if a.facts.recovery {
			role = "a standby"
		}
		told = append(told, checkup.Answer{Fine: fmt.Sprintf("%s, %s, %v", a.addr, role, a.trip)})
	}
	x.Hosts(told)
	return up
}

// askHost asks one host by a connection of its own.
func (s *store) askHost(ctx context.Context, addr string) *answer {
	a := &answer{addr: addr}
	var conn *wire.Conn
	if conn, a.err = wire.Dial(ctx, &s.cfg.wire, addr); a.err != nil {
		return a
	}
	defer conn.Close()
	a.facts, a.trip, a.err = checkup.AskTwice(func() (*facts, error) {
		reply, err := conn.Ask(ctx, []wire.Statement{{SQL: s.sql.about}})
		if err != nil {
			return nil, err
		}
		f, err := readFacts(reply)
		if err != nil {
			err = fmt.Errorf("%s: %w", addr, err)
		}
		return f, err
	})
	if a.err != nil {
		return a
	}
	a.version, a.encrypted, a.pooled = conn.Parameter("server_version"), conn.Encrypted(), a.facts.pid != conn.PID()
	return a
}

// roles tells of each host that answers what is worth knowing, and makes sure that one of them takes what is written, and no more.
func (x *examination) roles(up []*answer) {
	primaries := 0
	for _, a := range up {
		x.server(a)
		if !a.facts.recovery {
			primaries++
			if x.primary == nil {
				x.primary = a.facts
			}
		}
	}
	switch {
	case primaries > 1:
		x.Bad("hosts", oneServer+", and see which one was to be shut down", "%d hosts of the URL take what is written: each would give a job to somebody", primaries)
	case primaries == 0 && len(up) > 0:
		x.Bad("hosts", "pg_ctl promote, or name the primary in the URL", "none of the hosts takes what is written: all are in recovery")
	}
}

// server tells what one host is.
func (x *examination) server(a *answer) {
	x.secrecy(a)
	if a.facts.version < oldest {
		x.Bad("version", "leaderrun needs PostgreSQL 10 or later", "%s is too old: %d", a.addr, a.facts.version)
	} else {
		x.Fine("version", "PostgreSQL %s", a.version)
	}
	if !a.facts.recovery {
		x.Offset("the server's clock", a.trip.Offset(a.facts.now), a.trip.Took/2+time.Millisecond)
	}
	if a.pooled {
		x.Fine("pooler", "there is one between: a standby looks once a second instead of being told")
	}
}

// secrecy says what somebody in the network could do.
func (x *examination) secrecy(a *answer) {
	c := x.s.cfg
	const remedy = "?sslmode=verify-full&sslrootcert=FILE"
	switch {
	case checkup.IsLocal(a.addr):
	case !a.encrypted:
		x.Warn("encryption", remedy, "what is said to %s crosses the network in clear", a.addr)
	case c.wire.TLS.InsecureSkipVerify && c.wire.TLS.VerifyConnection == nil:
		x.Warn("encryption", remedy, "the certificate of %s is not verified: who is between can read and change everything", a.addr)
	default:
		x.Fine("encryption", "TLS, and the certificate of %s is verified", a.addr)
	}
}

func (x *examination) durability() {
	const what = "durability"
	f := x.primary
	switch {
	case f.unlogged:
		x.Bad(what, "ALTER TABLE "+x.s.cfg.table+" SET LOGGED", "the table %s is UNLOGGED: a crash of the server empties it", x.s.cfg.prefix)
	case f.fsync == "off":
		x.Bad(what, "fsync = on", "fsync is off: a crash of the server's host may take back what was granted")
	case f.fullPages == "off":
		x.Warn(what, "full_page_writes = on, unless the file system never tears a page", "full_page_writes is off: a crash of the server's host may damage the table")
	default:
		x.Fine(what, "a step counts when it is on the server's disk")
	}
}

func (x *examination) standbys() {
	const what = "standbys"
	switch f := x.primary; {
	case f.synchronous > 0:
		x.Fine(what, "a step counts when the synchronous ones have it too")
	case f.standbys > 0:
		x.Warn(what, "synchronous_standby_names", "none is synchronous: after a failover nobody starts for %v, and two runs may overlap while the old primary still answers", x.s.cfg.longest)
	default:
		x.Fine(what, "none are connected, and none are waited for")
	}
}

// rights says what the user may do, and returns what the table says of a job that there is not; nil: it cannot be read.
func (x *examination) rights(ctx context.Context) *state {
	f, c := x.primary, x.s.cfg
	switch {
	case f.table && !f.rights:
		x.Bad(checkup.Rights, x.s.sql.grant, "the user %s may not read and write the table %s", c.wire.User, c.prefix)
		return nil
	case !f.table && !f.mayCreate:
		x.Bad(checkup.Rights, x.s.createHint(), "there is no table %s, and the user %s may not create it", c.prefix, c.wire.User)
		return nil
	case !f.table:
		x.Fine(checkup.Rights, "the first claim creates the table: %s", x.s.sql.create)
		return nil
	}
	s, err := checkup.Limited(ctx, func(ctx context.Context) (*state, error) { return x.s.read(ctx, "doctor") })
	if err != nil { // it has not our columns, perhaps
		x.Failed(checkup.Rights, unreachable, err)
		return nil
	}
	x.Fine(checkup.Rights, "may read and write the table %s", c.prefix)
	return s
}

// mark tells of a quarantine, and of hosts with different options.
func (x *examination) mark(s *state) {
	const what = "quarantine"
	x.LongestTTL(x.s.cfg.longest, s.server.mark.Longest)
	if left := s.quarantine; left > 0 {
		x.Warn(what, "it ends by itself", "the server was started since it granted the last leases, or is another one: the next claim waits for %v", left.Round(time.Millisecond))
		return
	}
	x.Fine(what, "none: %s", describe(s.server.identity))
}

func describe(identity string) string {
	o, _ := originOf(identity)
	return fmt.Sprintf("cluster %d, timeline %d, up since %s", o.cluster, o.timeline, time.UnixMilli(o.started).UTC().Format(time.RFC3339))
}
