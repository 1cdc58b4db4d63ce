package main

var (
	postgresTests     = []string{"./backends/postgres"}
	postgresSuite     = []string{"./backends/postgres", "-run", "TestSuite$"}
	postgresHazards   = []string{"./backends/postgres", "-run", "TestReplyOf|TestTimeDoes|TestLock|TestFrozen|TestHand"}
	postgresFailovers = []string{"./backends/postgres", "-run", "TestFailover|TestNewServer|TestUnlogged|TestStandby|TestRestored|TestEmptied"}
	postgresConfig    = []string{"./backends/postgres", "-run", "TestWhatIsVerified|TestVerifyCA"}
	postgresWatch     = []string{"./backends/postgres", "-run", "TestWatch"}
	postgresWire      = []string{"./backends/postgres/wire"}
)

// postgresMutants break the rules of the driver postgres.
var postgresMutants = []mutant{
	{"PostgreSQL: what changed since it was read is written over", "backends/postgres/table.go", "j.version = $9::bigint AND j.xmin = $10::xid AND (", "$9::bigint IS NOT NULL AND $10::xid IS NOT NULL AND (", postgresTests},
	{"PostgreSQL: what was changed by hand is not noticed", "backends/postgres/table.go", "AND j.xmin = $10::xid AND (", "AND $10::xid IS NOT NULL AND (", postgresHazards},
	{"PostgreSQL: a lease that has run out is renewed", "backends/postgres/table.go", "(NOT $13::boolean OR j.until > clock_timestamp())", "(NOT $13::boolean OR j.until IS NOT NULL)", postgresSuite},
	{"PostgreSQL: a write does not ask which server it reaches", "backends/postgres/table.go", "` AND ` + identity + ` = $11::text`", "` AND $11::text <> ''`", postgresFailovers},
	{"PostgreSQL: a claim does not compare the mark", "backends/postgres/record.go", "args[11] = number(after.version)", "_ = after.version", postgresTests},
	{"PostgreSQL: a timeline is no other history", "backends/postgres/table.go", "FROM pg_control_system())::text || ':' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)`", "FROM pg_control_system())::text || ':00000001'`", postgresFailovers},
	{"PostgreSQL: no quarantine", "backends/postgres/acquire.go", "s.view(quarantine)", "s.view(min(quarantine, 0))", postgresFailovers},
	{"PostgreSQL: a promoted server without a table is a new one", "backends/postgres/mark.go", "|| timeline != 1", "|| timeline < 1", postgresFailovers},
	{"PostgreSQL: a server that was made just now is free at once", "backends/postgres/mark.go", "Started: made.UnixMilli()", "Started: made.UnixMilli() - made.UnixMilli()", postgresFailovers},
	{"PostgreSQL: a mark that makes no sense is none", "backends/postgres/mark.go", "return backends.Mark{Identity: \"unknown\"}", "return backends.Mark{}", postgresFailovers},
	{"PostgreSQL: who only looks is answered by a standby", "backends/postgres/record.go", "if recovery {", "if recovery && echo == \"\" {", postgresFailovers},
	{"PostgreSQL: a commit that nobody waited for counts", "backends/postgres/errors.go", "return errUnreplicated", "return nil", postgresFailovers},
	{"PostgreSQL: the default of synchronous_commit is kept", "backends/postgres/table.go", "WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END", "WHEN 'remote_apply' THEN 'remote_apply' ELSE current_setting('synchronous_commit') END", postgresFailovers},
	{"PostgreSQL: a repeated end is not written", "backends/postgres/postgres.go", "now, done, err := d.swap(ctx, job, s, s.release(e.Record, e.Release))", "if !e.Release {\n\t\t\treturn nil\n\t\t}\n\t\tnow, done, err := d.swap(ctx, job, s, s.release(e.Record, e.Release))", postgresFailovers},
	{"PostgreSQL: a lock is waited for without end", "backends/postgres/table.go", "set_config('lock_timeout', $1::text, true)", "set_config('lock_timeout', left($1::text, 0) || '0', true)", postgresHazards},
	{"PostgreSQL: any TTL is granted", "backends/postgres/acquire.go", "c.TTL > d.cfg.longest", "c.TTL > 1000*d.cfg.longest", postgresTests},
	{"PostgreSQL: no certificate is verified", "backends/postgres/config.go", "case !verifies:", "case !verifies || mode == \"verify-full\":", postgresConfig},
	{"PostgreSQL: nobody is told", "backends/postgres/record.go", "args[13] = wire.Text(d.sql.channel)", "_ = d.sql.channel", postgresWatch},
	{"PostgreSQL: a commit that broke off is known to have failed", "backends/postgres/wire/wire.go", "return e.Severity == \"ERROR\" && ", "return e.Severity != \"\" || ", postgresWire},
	{"PostgreSQL: an answer to an earlier question is taken", "backends/postgres/wire/conn.go", "c.broken.Store(true)\n\tif err == nil { // it came", "if err == nil { // it came", postgresWire},
	{"PostgreSQL: a renewal waits behind one that is silent", "backends/postgres/postgres.go", "if !alone {", "if !alone && h == nil {", postgresHazards},
}
