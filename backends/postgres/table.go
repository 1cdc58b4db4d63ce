package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/backends/postgres/wire"
)

const (
	// longestLock bounds how long a statement waits for a row that somebody keeps locked: one whose caller has gone would
	// wait on, and with it a process of the server.
	longestLock = 10 * time.Second
	shortLock   = 50 * time.Millisecond

	// After how many seconds a server begins to look whether a client whose connection is silent is still there, and how often
	// it looks, nine times on Linux, until it ends the connection. Where the client's host has lost its power nothing else would,
	// for hours: a connection, and with bad luck a row that is locked, would be nobody's.
	silentAfter, lookEach = "15", "3"
)

// columns are those of the table, as the statement that makes it has them. The lease is holder, token and until; who
// deletes it by hand empties holder and leaves until, which says for how long the holder may live. version is another
// number after every step of ours.
const columns = `job text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, record text, holder text, token bigint, ` +
	`until timestamptz, beat bigint NOT NULL DEFAULT 0, updated timestamptz NOT NULL DEFAULT clock_timestamp()`

// statements are what the driver asks of one table. Times are milliseconds of the server's clock, which is always
// clock_timestamp(): now() stands still while a statement waits for a lock.
type statements struct {
	create, grant, connect string
	settings, read, insert string
	update, jobs, about    string
	channel                string // on which a change is told that somebody waits for
}

// identity is SQL for who a server is: the cluster that initdb made, in which of its histories (timelines) it writes, and
// when it was started, in microseconds. A failover, and a recovery from an archive, begin another history; a snapshot of the
// disk that is put back does not, and takes another start.
const identity = `(SELECT system_identifier FROM pg_control_system())::text || ':' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)` +
	` || ':' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text`

// waits is SQL for whether a commit waits for standbys, as long as it takes.
const waits = `current_setting('synchronous_standby_names') <> ''`

// millis is SQL for a time in milliseconds.
func millis(of string) string { return "floor(extract(epoch FROM " + of + ") * 1000)::bigint::text" }

// readable is millis of a column; of a time that has none it is the text, infinity, which state refuses as no number.
func readable(column string) string {
	return "CASE WHEN isfinite(" + column + ") THEN " + millis(column) + " ELSE " + column + "::text END"
}

func newStatements(table, database, user string) statements {
	// A write of ours takes place if what it was decided on is still so. The row is compared by its version, and by its
	// xmin, which every change of anybody makes another one. The mark is compared where a claim is granted.
	const guard = ` AND ` + identity + ` = $11::text`
	mark := ` AND ($12::bigint IS NULL OR EXISTS (SELECT FROM ` + table + ` AS m WHERE m.job = '' AND m.version = $12::bigint))`
	until := `coalesce(to_timestamp($6::bigint / 1000.0), clock_timestamp() + $7::bigint * interval '1 millisecond'`
	returning := ` RETURNING j.job, j.xmin::text, ` + millis("j.until") + `, ` + millis("clock_timestamp()") + `, ` + waits +
		`, CASE WHEN $14::text IS NOT NULL THEN pg_notify($14::text, j.job)::text END`
	return statements{
		create:  `CREATE TABLE IF NOT EXISTS ` + table + ` (` + columns + `) WITH (fillfactor = 50)`,
		grant:   `GRANT SELECT, INSERT, UPDATE ON ` + table + ` TO ` + quote(user),
		connect: `GRANT CONNECT ON DATABASE ` + quote(database) + ` TO ` + quote(user),
		// The reply to a write comes after it is on the disk of the server and of the synchronous standbys, whatever the
		// user's or the database's default is, or with a warning.
		settings: `SELECT set_config('client_min_messages', 'warning', true), set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),` +
			// A pooler may hand on a connection on which another program has set another path: the table would be another one.
			` set_config('search_path', (SELECT reset_val FROM pg_settings WHERE name = 'search_path'), true), set_config('lock_timeout', $1::text, true), set_config('tcp_keepalives_idle', '` + silentAfter + `', false),` +
			` set_config('tcp_keepalives_interval', '` + lookEach + `', false)`,
		read: `SELECT $1::text, pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN '' ELSE ` + identity + ` END, ` +
			millis("clock_timestamp()") + `, ` + waits + `, j.version, j.xmin::text, j.record, j.holder, j.token, ` + readable("j.until") + `, j.beat,` +
			` m.version, m.xmin::text, m.record,` +
			` CASE WHEN m.job IS NULL THEN EXISTS (SELECT FROM ` + table + ` WHERE job <> '')` +
			` OR (SELECT relpersistence <> 'p' FROM pg_class WHERE oid = ` + literal(table) + `::regclass) END` +
			` FROM (SELECT) AS one LEFT JOIN ` + table + ` AS j ON j.job = $1::text LEFT JOIN ` + table + ` AS m ON m.job = ''`,
		insert: `INSERT INTO ` + table + ` AS j (job, version, record, holder, token, until, beat, updated)` +
			` SELECT $1::text, $2::bigint, $3::text, $4::text, $5::bigint, ` + until + `), $8::bigint, clock_timestamp()` +
			` WHERE $9::bigint IS NULL AND $10::xid IS NULL AND NOT $13::boolean` + guard + mark +
			` ON CONFLICT (job) DO NOTHING` + returning,
		update: `UPDATE ` + table + ` AS j SET version = $2::bigint, record = coalesce($3::text, j.record), holder = $4::text, token = $5::bigint, until = ` +
			until + `, j.until), beat = $8::bigint, updated = clock_timestamp()` +
			` WHERE j.job = $1::text AND j.version = $9::bigint AND j.xmin = $10::xid AND (NOT $13::boolean OR j.until > clock_timestamp())` + guard + mark + returning,
		jobs:    `SELECT job FROM ` + table + ` WHERE job <> ''`,
		about:   aboutServer(table),
		channel: channelOf(table),
	}
}

// The parameters of insert and update, in their order.
const (
	theKey     = iota // $1
	toVersion         // $2
	toRecord          // $3, in an update NULL: it stays
	toHolder          // $4, NULL: nobody has the lease
	toToken           // $5
	toUntil           // $6, ms; NULL, and no lasts: it stays
	lasts             // $7, ms: until so long after the write
	toBeat            // $8
	wasVersion        // $9, in an insert NULL
	wasXmin           // $10, in an insert NULL
	onServer          // $11, its identity
	underMark         // $12, the version of the mark's row; NULL: any
	ifValid           // $13, the lease must not have run out
	onChannel         // $14, the channel; NULL: nobody waits
	parameters        // how many there are
)

// writes returns the parameters of a write to a row, on the server that it was read from, and no others.
func writes(key string, version, beat int64, on *server) []wire.Value {
	args := make([]wire.Value, parameters)
	args[theKey], args[toVersion], args[toBeat] = wire.Text(key), number(version), number(beat)
	args[onServer], args[ifValid] = wire.Text(on.identity), wire.Text("f")
	return args
}

// literal quotes a text for SQL, whatever the server's settings for backslashes are.
func literal(s string) string {
	return ` E'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + `'`
}

// channelOf names the channel of a table: tables of two databases do not hear each other, but those of two schemas would.
func channelOf(table string) string {
	sum := sha256.Sum256([]byte(table))
	return "leaderrun_" + hex.EncodeToString(sum[:8])
}

// number is the value of a number. NULL is the zero Value.
func number(n int64) wire.Value { return wire.Text(strconv.FormatInt(n, 10)) }

// settings returns the first statement of a batch. It holds for its transaction, and what it says of silent clients for longer.
func (s *store) settings(ctx context.Context) wire.Statement {
	wait := longestLock
	if end, limited := ctx.Deadline(); limited {
		wait = min(max(time.Until(end), shortLock), longestLock)
	}
	return wire.Statement{SQL: s.sql.settings, Args: []wire.Value{wire.Text(strconv.FormatInt(wait.Milliseconds(), 10) + "ms")}}
}

// createTable makes the table. Somebody else may do so at the same time: that is as good.
func (s *store) createTable(ctx context.Context) error {
	_, err := s.client.Ask(ctx, []wire.Statement{s.settings(ctx), {SQL: s.sql.create, Cancel: true}}, nil)
	e, answered := errors.AsType[*wire.Error](err)
	if answered && e.Refused() {
		switch e.Code {
		case wire.DuplicateTable, wire.DuplicateObject, wire.UniqueViolation:
			return nil
		case wire.InsufficientRights:
			return backends.Misconfigured(s.createHint(), "there is no table %s, and it may not be created: %w", s.cfg.prefix, err)
		}
	}
	return s.classify(err)
}

// tableless makes sure that there is no table: who said so may be a standby that has not heard of it.
func (s *store) tableless(ctx context.Context) error {
	f, err := s.facts(ctx)
	if err == nil && f.table {
		err = fmt.Errorf("the table %s was made a moment ago", s.cfg.prefix)
	}
	return err
}

func (s *store) createHint() string {
	return "its owner runs: " + s.sql.create + "; " + s.sql.grant
}
