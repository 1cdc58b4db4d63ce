package main

var (
	postgresHazards   = []string{"./backends/postgres", "-run", "TestLateClaim|TestLock|TestSilentHost|TestHand|TestEndIs|TestClockSet|TestSilentClient"}
	postgresFailovers = []string{"./backends/postgres", "-run", "TestFailover|TestStandby|TestEmptied|TestAdmit"}
	postgresRestores  = []string{"./backends/postgres", "-run", "TestAdmit|TestPutBack|TestMarkIsCompared"}
	postgresConfig    = []string{"./backends/postgres", "-run", "TestWhatIsVerified|TestBadURL"}
	postgresWatch     = []string{"./backends/postgres", "-run", "TestWatch|TestTold"}
	postgresErrors    = []string{"./backends/postgres", "-run", "TestPermanent|TestJobsOfAStandby"}
	postgresCancels   = []string{"./backends/postgres", "-run", "TestStandbyAway|TestCancels"}
	postgresWire      = []string{"./backends/postgres/wire"}
	postgresHostile   = []string{"./backends/postgres/wire", "-run", "TestLogInInOrder|TestOrders|TestMD5|TestEndless|TestPasswordIsNot|TestNothingButTheURL|TestFailedLogIn|TestReplyThatIsNotOne|TestScram"}
	postgresDamaged   = []string{"./backends/postgres", "-run", "TestDamaged"}
)

// postgresMutants break the rules of the driver postgres.
var postgresMutants = []mutant{
	{"PostgreSQL: a mark that cannot be written is tried without a pause", "backends/postgres/read.go", "if conflicts > 1 {", "if conflicts > 1<<40 {", []string{"./backends/postgres", "-run", "CannotBeWritten"}},
	{"PostgreSQL: what changed since it was read is written over", "backends/postgres/table.go", "j.version = $9::bigint AND j.xmin = $10::xid AND (", "$9::bigint IS NOT NULL AND $10::xid IS NOT NULL AND (", postgresHazards},
	{"PostgreSQL: what was changed by hand is not noticed", "backends/postgres/table.go", "AND j.xmin = $10::xid AND (", "AND $10::xid IS NOT NULL AND (", postgresHazards},
	{"PostgreSQL: a lease that has run out is renewed", "backends/postgres/table.go", "(NOT $13::boolean OR j.until > clock_timestamp())", "(NOT $13::boolean OR j.until IS NOT NULL)", postgresHazards},
	{"PostgreSQL: a write does not ask which server it reaches", "backends/postgres/table.go", "` AND ` + identity + ` = $11::text`", "` AND $11::text <> ''`", postgresRestores},
	{"PostgreSQL: a claim does not compare the mark", "backends/postgres/swap.go", "args[underMark] = number(s.server.markVersion)", "_ = s.server.markVersion", postgresRestores},
	{"PostgreSQL: a timeline is no other history", "backends/postgres/table.go", "FROM pg_control_system())::text || ':' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)`", "FROM pg_control_system())::text || ':00000001'`", postgresFailovers},
	{"PostgreSQL: a start is no other server", "backends/postgres/table.go", "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text", "'1'", postgresRestores},
	{"PostgreSQL: another timeline is a restart", "backends/postgres/mark.go", " || is.timeline != was.timeline", "", postgresRestores},
	{"PostgreSQL: another cluster is a restart", "backends/postgres/mark.go", "is.cluster != was.cluster || ", "", postgresRestores},
	{"PostgreSQL: a mark of another shape is trusted", "backends/postgres/mark.go", "!known || !sane || ", "sane && !known || ", postgresRestores},
	{"PostgreSQL: a role may hide a warning", "backends/postgres/table.go", "set_config('client_min_messages', 'warning', true), ", "", postgresFailovers},
	{"PostgreSQL: a run ends when it was last renewed", "backends/postgres/read.go", "v.Now = v.Now.Add(time.Since(s.server.at))", "v.Now = v.Now.Add(0)", postgresHazards},
	{"PostgreSQL: a clock that was set back keeps a dead holder alive", "backends/postgres/mark.go", "until != now.record.Until {", "until < 0 {", postgresHazards},
	{"PostgreSQL: no quarantine", "backends/postgres/read.go", "_, now.quarantine = now.server", "_, _ = now.server", postgresFailovers},
	{"PostgreSQL: a promoted server without a table is a new one", "backends/postgres/mark.go", "|| is.timeline != 1", "|| is.timeline < 1", postgresRestores},
	{"PostgreSQL: a server that was made just now is free at once", "backends/postgres/mark.go", "Started: max(is.started, is.made())", "Started: min(0, is.started)", postgresRestores},
	{"PostgreSQL: who only looks is answered by a standby", "backends/postgres/read.go", "if recovery {", "if recovery && echo == \"\" {", postgresFailovers},
	{"PostgreSQL: a commit that nobody waited for counts", "backends/postgres/errors.go", "return errUnreplicated", "return nil", postgresFailovers},
	{"PostgreSQL: the default of synchronous_commit is kept", "backends/postgres/table.go", "WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END", "WHEN 'remote_apply' THEN 'remote_apply' ELSE current_setting('synchronous_commit') END", postgresFailovers},
	{"PostgreSQL: a repeated end is not written", "backends/postgres/postgres.go", "Rewrites: true,", "Rewrites: false,", postgresFailovers},
	{"PostgreSQL: a lock is waited for without end", "backends/postgres/table.go", "set_config('lock_timeout', $1::text, true)", "set_config('lock_timeout', left($1::text, 0) || '0', true)", postgresHazards},
	{"PostgreSQL: any TTL is granted", "backends/postgres/read.go", "t.q.TTL > t.cfg.longest", "t.q.TTL > 1000*t.cfg.longest", postgresErrors},
	{"PostgreSQL: the lease of a claim lasts from when it is written", "backends/postgres/swap.go", "case renews:\n\t\targs[lasts], args[ifValid] = number(w.TTL.Milliseconds()), wire.Text(\"t\")", "case w.Lease != nil:\n\t\targs[lasts], args[ifValid] = number(w.TTL.Milliseconds()), wire.Text(map[bool]string{true: \"t\", false: \"f\"}[renews])", postgresHazards},
	{"PostgreSQL: a note of the record forgets who has the lease", "backends/postgres/swap.go", "case w.Release:", "case w.Lease == nil:", postgresHazards},
	{"PostgreSQL: a request asks one host again and another never", "internal/backendurl/rotation.go", "host = one", "host = r.hosts[0]", postgresWire},
	{"PostgreSQL: a client that is gone keeps its connection for hours", "backends/postgres/table.go", "lookEach = \"15\", ", "lookEach = \"0\", ", postgresHazards},
	{"PostgreSQL: a standby that has not heard of the table says that a lease is lost", "backends/postgres/read.go", "now: time.Now()}}, t.tableless(ctx)", "now: time.Now()}}, nil", postgresErrors},
	{"PostgreSQL: no certificate is verified", "backends/postgres/config.go", "case !verifies:", "case !verifies || mode == \"verify-full\":", postgresConfig},
	{"PostgreSQL: what stands behind the database is part of its name", "backends/postgres/config.go", "if strings.Contains(path, \"/\") {", "if false {", postgresConfig},
	{"PostgreSQL: nobody is told", "backends/postgres/swap.go", "args[onChannel] = wire.Text(t.sql.channel)", "_ = t.sql.channel", postgresWatch},
	{"PostgreSQL: a commit that broke off is known to have failed", "backends/postgres/wire/wire.go", "return e.Severity == \"ERROR\" && ", "return e.Severity != \"\" || ", postgresWire},
	{"PostgreSQL: an answer to an earlier question is taken", "backends/postgres/wire/conn.go", "c.broken.Store(true)\n\tif err == nil { // it came", "if err == nil { // it came", postgresWire},
	{"PostgreSQL: what nobody waits for any more keeps its row locked", "backends/postgres/wire/client.go", "if conn.orphaned() && !c.closed {", "if conn.orphaned() && c.closed {", postgresCancels},
	{"PostgreSQL: what a broken connection has left waiting keeps its row locked", "backends/postgres/wire/conn.go", "\tc.left = true\n", "\tc.left = ctx.Err() != nil\n", postgresWire},
	{"PostgreSQL: a pooler loses its client before it is told to cancel", "backends/postgres/wire/cancel.go", "_ = conn.pg.CancelRequest(ctx)", "conn.Close()\n\t_ = conn.pg.CancelRequest(ctx)", postgresWire},
	{"PostgreSQL: the key to cancel by is sent in clear", "backends/postgres/wire/dial.go", "alike.Security = Must", "alike.Security = Plain", postgresWire},
	{"PostgreSQL: a server that waits for nobody is asked to cancel", "backends/postgres/table.go", "current_setting('synchronous_standby_names') <> ''", "current_setting('synchronous_standby_names') IS NOT NULL", postgresCancels},
	{"PostgreSQL: a client that was closed goes on cancelling", "backends/postgres/wire/client.go", "c.leaving.Wait()", "_ = &c.leaving", postgresWire},
	{"PostgreSQL: a server is ready that has not let us in", "backends/postgres/wire/auth.go", "case l.phase != admitted && kind != 'E':", "case l.phase > admitted && kind != 'E':", postgresHostile},
	{"PostgreSQL: a server lets us in without knowing the password", "backends/postgres/wire/auth.go", "{named, authSASL}:       begun,", "{named, authSASL}: begun, {begun, authOK}: admitted,", postgresHostile},
	{"PostgreSQL: a log-in begins anew in its middle", "backends/postgres/wire/auth.go", "{proved, authOK}:        admitted,", "{proved, authOK}: admitted, {proved, authMD5}: proved,", postgresHostile},
	{"PostgreSQL: SCRAM has one round", "backends/postgres/wire/auth.go", "if n < leastRounds {", "if n < 1 {", postgresHostile},
	{"PostgreSQL: MD5 goes over the network in clear", "backends/postgres/wire/auth.go", "case kind == authMD5 && !l.secret:", "case kind == authMD5 && l.cfg == nil:", postgresHostile},
	{"PostgreSQL: an answer has no end", "backends/postgres/wire/source.go", "if s.room -= n; s.room < 0 {", "if s.room -= n; s.room > mostList {", postgresHostile},
	{"PostgreSQL: notifications are kept without end", "backends/postgres/wire/conn.go", "c.kept > most {", "c.kept < 0 {", postgresHostile},
	{"PostgreSQL: a password goes in clear without TLS", "backends/postgres/wire/auth.go", "case kind == authClear && !(l.tls && l.cfg.ClearText):", "case kind == authClear && l.cfg == nil:", postgresHostile},
	{"PostgreSQL: a server is ready within a transaction", "backends/postgres/wire/source.go", "case kind == 'Z' && string(body) != \"I\":", "case kind == 'Z' && len(body) != 1:", postgresHostile},
	{"PostgreSQL: what follows a row is not noticed", "backends/postgres/wire/source.go", "if size != s.size {", "if size > s.size {", postgresHostile},
	{"PostgreSQL: the search path of another program counts", "backends/postgres/table.go", "(SELECT reset_val FROM pg_settings WHERE name = 'search_path'), true)", "current_setting('search_path'), true)", []string{"./backends/postgres", "-run", "TestSearchPath"}},
	{"PostgreSQL: the environment counts", "backends/postgres/wire/dial.go", " require_auth=''", "", postgresHostile},
	{"PostgreSQL: a service of the environment counts", "backends/postgres/wire/dial.go", "if os.Getenv(\"PGSERVICE\") == \"\" {", "if os.Getenv(\"PGSERVICE\") != \"x\" {", postgresHostile},
	{"PostgreSQL: a log-in that has failed is cancelled", "backends/postgres/wire/dial.go", "if c.pg == nil {", "if c.addr == \"\" {", postgresHostile},
	{"PostgreSQL: a password in clear text goes to another name", "backends/postgres/config.go", "wire.Must, mode == \"verify-full\", config", "wire.Must, verifies, config", postgresConfig},
	{"PostgreSQL: a row that cannot be read is tried for ever", "backends/postgres/read.go", "return nil, s.unread(job, err)", "return nil, s.classify(err)", postgresDamaged},
	{"PostgreSQL: a row without a version is none", "backends/postgres/read.go", "now.row, now.xmin = xmin.Valid, xmin.Text", "now.row, now.xmin = version.Valid, xmin.Text", postgresDamaged},
	{"PostgreSQL: a renewal waits behind one that is silent", "backends/postgres/postgres.go", "if q.IsHedge {", "if q.IsHedge && q.Job == \"\" {", postgresHazards},
}
