package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

var _ backends.Examiner = (*Driver)(nil)

const (
	hostLimit = 5 * time.Second // for one host
	oldest    = 100000          // server_version_num of 10

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
		` CASE WHEN current_setting('synchronous_standby_names') <> '' THEN 1 ELSE 0 END,` +
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
func (d *Driver) facts(ctx context.Context) (f *facts, err error) {
	_, err = d.client.Ask(ctx, []wire.Statement{{SQL: d.sql.about}}, func(r wire.Reply) (err error) {
		f, err = readFacts(r)
		if err == nil && f.recovery {
			err = wire.ErrStandby
		}
		return err
	})
	return f, d.classify(err)
}

// examination is what is known while a database is looked at.
type examination struct {
	backends.Findings
	d       *Driver
	primary *facts // of the first host that takes what is written; nil: there is none
}

// Examine implements backends.Examiner. It changes nothing.
func (d *Driver) Examine(ctx context.Context, _ time.Duration) []backends.Finding {
	x := &examination{d: d}
	primaries := 0
	answering := 0
	for _, addr := range d.cfg.wire.Addrs {
		f, ok := x.host(ctx, addr)
		if ok {
			answering++
		}
		if f != nil && !f.recovery {
			primaries++
			if x.primary == nil {
				x.primary = f
			}
		}
	}
	switch {
	case primaries > 1:
		x.Bad("hosts", oneServer+", and see which one was to be shut down", "%d hosts of the URL take what is written: each would give a job to somebody", primaries)
	case primaries == 0 && answering > 0:
		x.Bad("hosts", "pg_ctl promote, or name the primary in the URL", "none of the hosts takes what is written: all are in recovery")
	}
	if x.primary != nil {
		x.durability()
		x.standbys()
		if x.rights(ctx) {
			x.mark(ctx)
		}
	}
	return x.Findings
}

// host asks one host by a connection of its own.
func (x *examination) host(ctx context.Context, addr string) (*facts, bool) {
	ctx, cancel := context.WithTimeout(ctx, hostLimit)
	defer cancel()
	c := x.d.cfg
	conn, err := wire.Dial(ctx, &c.wire, addr)
	if err == nil {
		defer conn.Close()
	}
	var f *facts
	var offset, took time.Duration
	for range 2 { // the second answer comes without what a new connection costs
		if err != nil {
			break
		}
		sent := time.Now()
		var reply wire.Reply
		if reply, err = conn.Ask(ctx, []wire.Statement{{SQL: x.d.sql.about}}); err == nil {
			f, err = readFacts(reply)
		}
		if err == nil {
			took = time.Since(sent)
			offset = f.now.Sub(sent.Add(took / 2))
		}
	}
	if err != nil {
		if len(c.wire.Addrs) > 1 {
			x.Warn(backends.Reachable, unreachable, "%v", x.d.classify(err)) // which names the host
		} else {
			x.Failed(backends.Reachable, unreachable, x.d.classify(err))
		}
		return nil, false
	}
	role := "the primary"
	if f.recovery {
		role = "a standby"
	}
	x.Fine(backends.Reachable, "%s, %s, answers within %v", addr, role, took.Round(10*time.Microsecond))
	x.secrecy(conn, addr)
	if f.version < oldest {
		x.Bad("version", "leaderrun needs PostgreSQL 10 or later", "%s is too old: %d", addr, f.version)
	} else {
		x.Fine("version", "PostgreSQL %s", conn.Parameter("server_version"))
	}
	if !f.recovery {
		x.Offset("the server's clock", offset, took/2+time.Millisecond)
	}
	if f.pid != conn.PID() {
		x.Fine("pooler", "there is one between: a standby looks once a second instead of being told")
	}
	return f, true
}

// secrecy says what somebody in the network could do.
func (x *examination) secrecy(conn *wire.Conn, addr string) {
	c := x.d.cfg
	const remedy = "?sslmode=verify-full&sslrootcert=FILE"
	switch {
	case len(remote([]string{addr})) == 0:
	case !conn.Encrypted():
		x.Warn("encryption", remedy, "what is said to %s crosses the network in clear", addr)
	case c.wire.TLS.InsecureSkipVerify && c.wire.TLS.VerifyConnection == nil:
		x.Warn("encryption", remedy, "the certificate of %s is not verified: who is between can read and change everything", addr)
	default:
		x.Fine("encryption", "TLS, and the certificate of %s is verified", addr)
	}
}

func (x *examination) durability() {
	const what = "durability"
	f := x.primary
	switch {
	case f.unlogged:
		x.Bad(what, "ALTER TABLE "+x.d.cfg.table+" SET LOGGED", "the table %s is UNLOGGED: a crash of the server empties it", x.d.cfg.prefix)
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
		x.Warn(what, "synchronous_standby_names", "none is synchronous: after a failover nobody starts for %v, and two runs may overlap while the old primary still answers", x.d.cfg.longest)
	default:
		x.Fine(what, "none are connected, and none are waited for")
	}
}

func (x *examination) rights(ctx context.Context) bool {
	f, c := x.primary, x.d.cfg
	switch {
	case f.table && !f.rights:
		x.Bad(backends.Rights, x.d.sql.grant, "the user %s may not read and write the table %s", c.wire.User, c.prefix)
		return false
	case !f.table && !f.mayCreate:
		x.Bad(backends.Rights, x.d.createHint(), "there is no table %s, and the user %s may not create it", c.prefix, c.wire.User)
		return false
	case !f.table:
		x.Fine(backends.Rights, "the first claim creates the table: %s", x.d.sql.create)
		return false
	}
	if _, err := x.d.read(ctx, "doctor"); err != nil { // it has our columns
		x.Failed(backends.Rights, unreachable, err)
		return false
	}
	x.Fine(backends.Rights, "may read and write the table %s", c.prefix)
	return true
}

// mark tells of a quarantine, and of hosts with different options.
func (x *examination) mark(ctx context.Context) {
	const what = "quarantine"
	s, err := x.d.read(ctx, "doctor")
	if err != nil {
		return // rights has just told
	}
	longest := x.d.cfg.longest
	if kept := time.Duration(s.mark.Longest) * time.Millisecond; kept > longest {
		x.Warn("longest-ttl", "give ?longest-ttl= the same value on every host",
			"%v here, and %v was seen: the longer one is how long a quarantine lasts", longest, kept)
	}
	if left := x.d.quarantine(s); left > 0 {
		x.Warn(what, "it ends by itself", "the server was started since it granted the last leases, or is another one: the next claim waits for %v", left.Round(time.Millisecond))
		return
	}
	x.Fine(what, "none: %s", describe(s.identity))
}

func describe(identity string) string {
	o, _ := originOf(identity)
	return fmt.Sprintf("cluster %d, timeline %d, up since %s", o.cluster, o.timeline, time.UnixMilli(o.started).UTC().Format(time.RFC3339))
}
