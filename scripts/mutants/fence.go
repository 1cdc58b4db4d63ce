package main

import "slices"

// fenceMutants break the rules of fenced resources.
var fenceMutants = slices.Concat(fileFenceMutants, sqlFenceMutants, redisFenceMutants, s3FenceMutants, httpFenceMutants)

var (
	fileFenceSuite   = []string{"./fence/filefence", "-run", "TestSuite"}
	fileFenceTests   = []string{"./fence/filefence", "-skip", "TestSuite"}
	fileFenceScripts = []string{"./internal/command", "-run", "TestScripts/fence-file"}

	signaledFenceTests = []string{"./internal/command", "-run", "TestASignalThatComes|TestWhatASignal|TestFenceFileSignaledTooLate"}
	pipedTests         = []string{"./internal/process", "-run", "TestRunPiped"}
)

var fileFenceMutants = []mutant{
	{"file fence: tokens are not compared", "fence/filefence/token.go", "case token < highest:", "case token < 0:", fileFenceSuite},
	{"file fence: an equal token is refused", "fence/filefence/token.go", "case token < highest:", "case token <= highest:", fileFenceSuite},
	{"file fence: the check and the write are two steps", "fence/filefence/filefence.go", "return t.locked(ctx, func() error { return w.commit(ctx, tmp, old) })", "return w.commit(ctx, tmp, old)", fileFenceSuite},
	{"file fence: tokens are compared before the content is made, and not after", "fence/filefence/filefence.go", "f, t := w.file, w.file.token\n\tif _, err := t.admit(f.resource, w.token); err != nil {\n\t\treturn err\n\t}\n\tnow,", "f, t := w.file, w.file.token\n\tnow,", fileFenceSuite},
	{"file fence: to raise it does nothing", "fence/filefence/filefence.go", "if err := f.token.Raise(ctx, f.resource, r.Token); err != nil {", "if err := ctx.Err(); err != nil {", fileFenceSuite},
	{"file fence: a lock is one although its file was replaced", "fence/filefence/lock.go", "if there {", "if there || err == nil {", fileFenceTests},
	{"file fence: the content is not on the disk before its name", "fence/filefence/filefence.go", "if err := t.sync(tmp.file); err != nil {\n\t\treturn unusable(err)\n\t}\n\treturn t.locked", "return t.locked", fileFenceTests},
	{"file fence: new permission bits are not on the disk before the name", "fence/filefence/filefence.go", "if err := t.sync(tmp.file); err != nil {\n\t\t\treturn unusable(err)\n\t\t}\n\t}\n", "}\n", fileFenceTests},
	{"file fence: a name is not on the disk when it is told to be", "fence/filefence/temporary.go", "return t.syncDir(dir, unsure)", "return nil", fileFenceTests},
	{"file fence: the token is not on the disk before its name", "fence/filefence/token.go", "if err == nil {\n\t\terr = t.sync(tmp.file)\n\t}\n", "", fileFenceTests},
	{"file fence: a token that another process wrote is taken to be on the disk", "fence/filefence/token.go", "return t.syncDir(dir, errUnsyncedToken)", "return nil", fileFenceTests},
	{"file fence: an error after the rename says that nothing was written", "fence/filefence/disk.go", "return fmt.Errorf(\"%w: %w\", unsure, err)", "return fmt.Errorf(\"%w\", unusable(err))", fileFenceTests},
	{"file fence: an error of the fence's directory says that the file was replaced", "fence/filefence/token.go", "return t.place(tmp, t.state, errUnsyncedToken)", "return t.place(tmp, t.state, ErrUnsynced)", fileFenceTests},
	{"file fence: a damaged state is taken for none", "fence/filefence/token.go", "if !whole || err != nil {", "if !whole || err != nil {\n\t\treturn 0, nil\n\t}\n\tif token < 0 {", fileFenceTests},
	{"file fence: a part of a token is taken for one", "fence/filefence/token.go", "if !whole || err != nil {", "if err != nil || !whole && token == 0 {", fileFenceTests},
	{"file fence: a write that failed is forgotten", "fence/filefence/content.go", "c.failed = unusable(err)\n\treturn n, c.failed", "return n, unusable(err)", fileFenceTests},
	{"file fence: content is taken after its end", "fence/filefence/content.go", "c.closed = true\n", "", fileFenceTests},
	{"file fence: content counts that was made until a signal came", "fence/filefence/filefence.go", "if err := ctx.Err(); err != nil {", "if err := error(nil); err != nil {", fileFenceTests},
	{"file fence: the file of a run that lives is taken for one that was left", "fence/filefence/temporary.go", "if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil {", "if f != nil {", fileFenceTests},
	{"file fence: what a killed run left stays", "fence/filefence/token.go", "\t\tt.sweep()\n", "", fileFenceTests},
	{"file fence: file systems are not looked at", "fence/filefence/token.go", "if err := checkVolume(dir); err != nil {", "if err := checkVolume(dir); err != nil && dir == \"\" {", fileFenceTests},
	{"file fence: a symbolic link has a fence of its own", "fence/filefence/resolve.go", "case errors.Is(err, syscall.EINVAL),", "case err == nil, errors.Is(err, syscall.EINVAL),", fileFenceTests},
	{"file fence: the owner changes", "fence/filefence/owner.go", "if have != want {", "if have == want {", fileFenceTests},
	{"file fence: the output of a command that failed counts", "internal/command/fence_content.go", "case status.Code != 0:", "case status.Code < 0:", fileFenceScripts},
	{"file fence: what a command left behind writes on", "internal/process/piped.go", "for !over || !whole {", "for !over {", fileFenceScripts},
	{"file fence: a command that is stopped does not hear that it is to end", "internal/process/piped.go", "_ = p.Signal(syscall.SIGCONT)", "_ = p", pipedTests},
	{"file fence: a command that ignores signals is not killed", "internal/process/piped.go", "if asks > 0 {", "if asks > 2 {", pipedTests},
	{"file fence: a reload counts as a call to end", "internal/process/piped.go", "if sig == syscall.SIGTERM || sig == syscall.SIGINT {", "if sig != 0 {", pipedTests},
	{"file fence: a command is waited for although nobody can take what it prints", "internal/process/piped.go", "if failed != nil && !over {", "if false {", pipedTests},
	{"file fence: a signal that comes too late hides that the file was replaced", "internal/command/fence_file.go", "c.written = p.path + \" was replaced\"", "_ = p.path", signaledFenceTests},
	{"file fence: a signal hides that nobody knows what was written", "internal/command/main.go", "case mayBeWritten(err):", "case false:", signaledFenceTests},
	{"file fence: half an output counts where a signal ended the producer", "internal/command/fence_content.go", "\t\tlisten(ctx)\n", "", signaledFenceTests},
	{"file fence: without a stdin the file becomes empty", "internal/command/fence_content.go", "if isNull(c.stdin) {", "if false {", fileFenceScripts},
	{"file fence: a command is started before it is looked up", "internal/command/fence_content.go", "if err != nil {\n\t\treturn nil, &fault{code: code, what: argv[0]", "if err != nil && code < 0 {\n\t\treturn nil, &fault{code: code, what: argv[0]", fileFenceScripts},
}

var (
	postgresFenceTests = []string{"./fence/sqlfence", "-run", "TestPostgreSQL"}
	mysqlFenceTests    = []string{"./fence/sqlfence", "-run", "TestMySQL"}
	sqliteFenceTests   = []string{"./fence/sqlfence", "-run", "TestSQLite"}
)

var sqlFenceMutants = []mutant{
	{"SQL fence: a token that is lower passes", "fence/sqlfence/sqlfence.go", "if highest > w.run.Token {", "if false {", sqliteFenceTests},
	{"SQL fence: an equal token is refused", "fence/sqlfence/sqlfence.go", "if highest > w.run.Token {", "if highest >= w.run.Token {", sqliteFenceTests},
	{"SQL fence: to raise it does nothing", "fence/sqlfence/sqlfence.go", "\tif err := w.checked(ctx, r.engine().raiseOptions(), func(*sql.Tx) error { return nil }); err != nil {\n\t\treturn nil, err\n\t}\n", "", sqliteFenceTests},
	{"SQL fence: the check and the write are two transactions", "fence/sqlfence/sqlfence.go", "\tif err := do(tx); err != nil {\n\t\treturn err\n\t}\n", "\t_ = tx.Commit()\n\tif tx, err = w.resource.db.BeginTx(ctx, options); err != nil {\n\t\treturn err\n\t}\n\tif err := do(tx); err != nil {\n\t\treturn err\n\t}\n", postgresFenceTests},
	{"SQL fence: a commit that nobody confirmed is taken for done", "fence/sqlfence/sqlfence.go", "return w.resource.uncommitted(err)", "return nil", postgresFenceTests},
	{"SQL fence: a commit that was refused is taken for unknown", "fence/sqlfence/explain.go", "if conflict || strings.HasPrefix(state, \"23\") {", "if conflict {", postgresFenceTests},
	{"SQL fence: a callback that failed is committed", "fence/sqlfence/sqlfence.go", "\tif err := do(tx); err != nil {\n\t\treturn err\n\t}\n", "\t_ = do(tx)\n", sqliteFenceTests},
	{"SQL fence: what is done once is not looked at", "fence/sqlfence/sqlite.go", "return made > 0, err", "return made >= 0, err", sqliteFenceTests},
	{"SQL fence: every tick is done", "fence/sqlfence/sqlite.go", "return made > 0, err", "return made < 0, err", sqliteFenceTests},
	{"PostgreSQL fence: tokens are not compared", "fence/sqlfence/postgres.go", " WHERE f.token <= excluded.token", "", postgresFenceTests},
	{"PostgreSQL fence: the same token locks the row and does not write it", "fence/sqlfence/postgres.go", "f.token <= excluded.token", "f.token < excluded.token", postgresFenceTests},
	{"PostgreSQL fence: the function does not compare tokens", "fence/sqlfence/schema/postgres/functions.sql", " WHERE f.token <= excluded.token;", ";", postgresFenceTests},
	{"PostgreSQL fence: the function refuses an equal token", "fence/sqlfence/schema/postgres/functions.sql", "f.token <= excluded.token;", "f.token < excluded.token;", postgresFenceTests},
	{"PostgreSQL fence: a temporary table is taken for the fence", "fence/sqlfence/schema/postgres/functions.sql", "leaderrun_fence(text, bigint) SET search_path = %I, pg_temp", "leaderrun_fence(text, bigint) SET search_path = %I", postgresFenceTests},
	{"PostgreSQL fence: every tick is the first", "fence/sqlfence/schema/postgres/functions.sql", "RETURN FOUND;", "RETURN true;", postgresFenceTests},
	{"PostgreSQL fence: the printed comments forget the transaction", "fence/sqlfence/schema/postgres/usage.sql", "--   BEGIN;\n--   SET LOCAL idle_in_transaction_session_timeout = '60s';\n--   SELECT leaderrun_fence({resource}, :'token') \\gset\n--   SELECT leaderrun_once", "--   SELECT leaderrun_fence({resource}, :'token') \\gset\n--   SELECT leaderrun_once", postgresFenceTests},
	{"MySQL fence: the token goes down", "fence/sqlfence/mysql.go", "token = GREATEST(token, ?)", "token = ?", mysqlFenceTests},
	{"MySQL fence: it reads before it locks", "fence/sqlfence/mysql.go", "\t_, err := tx.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES (?, ?)\nON", "\t_, _ = number(ctx, tx, \"SELECT token FROM leaderrun_fence WHERE resource = ?\", resource)\n\t_, err := tx.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES (?, ?)\nON", mysqlFenceTests},
	{"MySQL fence: names are compared as a language does", "fence/sqlfence/schema/mysql/tables.sql", "resource VARBINARY(255)", "resource VARCHAR(255)", mysqlFenceTests},
	{"MySQL fence: the function does not compare tokens", "fence/sqlfence/schema/mysql/functions.sql", "highest IS NULL OR highest > mine", "highest IS NULL", mysqlFenceTests},
	{"MySQL fence: the function cuts long names off", "fence/sqlfence/schema/mysql/functions.sql", "fenced VARBINARY(1000)", "fenced VARBINARY(255)", mysqlFenceTests},
	{"MySQL fence: every tick is the first", "fence/sqlfence/schema/mysql/functions.sql", "RETURN before_this = 0;", "RETURN TRUE;", mysqlFenceTests},
	{"SQLite fence: tokens are not compared", "fence/sqlfence/sqlite.go", "SET token = ? WHERE resource = ? AND token <= ?", "SET token = ? WHERE resource = ? AND token <> -?", sqliteFenceTests},
	{"SQLite fence: it reads before it locks", "fence/sqlfence/sqlite.go", "\tkept, err := rows(tx.ExecContext(ctx,\n", "\t_, _ = number(ctx, tx, \"SELECT token FROM leaderrun_fence WHERE resource = ?\", resource)\n\tkept, err := rows(tx.ExecContext(ctx,\n", sqliteFenceTests},
	{"SQLite fence: the trigger does not compare tokens", "fence/sqlfence/schema/sqlite/functions.sql", " AND token > NEW.token", " AND 0", sqliteFenceTests},
	{"SQLite fence: the printed comments let sqlite3 go on", "fence/sqlfence/schema/sqlite/usage.sql", "AS TEXT)\\\"\" FILE <<'SQL'\n--   .bail on\n", "AS TEXT)\\\"\" FILE <<'SQL'\n--   .bail off\n", sqliteFenceTests},
	{"SQL fence: a transaction that is over counts", "fence/sqlfence/sqlfence.go", "return w.stillChecked(ctx, tx)", "return nil", sqliteFenceTests},
	{"SQL fence: a transaction that was cancelled is taken for unknown", "fence/sqlfence/sqlfence.go", "return w.resource.explain(\"commit\", ctx.Err())", "return w.resource.uncommitted(ctx.Err())", sqliteFenceTests},
	{"PostgreSQL fence: a second one is installed", "fence/sqlfence/schema/postgres/tables.sql", "AND n.nspname <> current_schema()", "AND n.nspname = ''", postgresFenceTests},
	{"PostgreSQL fence: half of it can be installed", "fence/sqlfence/postgres.go", "return \"BEGIN;\\n\\n\", \"\\nCOMMIT;\\n\"", "return \"\", \"\"", postgresFenceTests},
	{"PostgreSQL fence: a backslash in a name is printed as it is", "fence/sqlfence/postgres.go", "if plain(text) {", "if text != \"\" {", postgresFenceTests},
	{"PostgreSQL fence: the printed script holds its locks for ever", "fence/sqlfence/schema/postgres/usage.sql", "--   BEGIN;\n--   SET LOCAL idle_in_transaction_session_timeout = '60s';\n--   SELECT leaderrun_fence({resource}, :'token') \\gset\n--   UPDATE", "--   BEGIN;\n--   SELECT '60s' AS unused \\gset\n--   SELECT leaderrun_fence({resource}, :'token') \\gset\n--   UPDATE", postgresFenceTests},
	{"MySQL fence: what follows a deadlock is committed", "fence/sqlfence/mysql.go", ", autocommit = 0", ", autocommit = 1", mysqlFenceTests},
	{"MySQL fence: a connection comes back without autocommit", "fence/sqlfence/mysql.go", "if committed && commitsAgain(ctx, conn) {", "if committed {", mysqlFenceTests},
	{"MySQL fence: an equal token leaves no event", "fence/sqlfence/mysql.go", "checks = checks + 1, ", "", mysqlFenceTests},
	{"MySQL fence: an equal token leaves no event of the function", "fence/sqlfence/schema/mysql/functions.sql", "checks = checks + 1, ", "", mysqlFenceTests},
	{"MySQL fence: other jobs wait for a tick", "fence/sqlfence/mysql.go", "\t_, err = tx.ExecContext(ctx, `INSERT INTO leaderrun_done", "\t_, _ = number(ctx, tx, `SELECT token FROM leaderrun_done WHERE job = ? AND tick = ? FOR UPDATE`, r.Job, r.Occasion())\n\t_, err = tx.ExecContext(ctx, `INSERT INTO leaderrun_done", mysqlFenceTests},
	{"MySQL fence: every tick is the first to the package", "fence/sqlfence/mysql.go", "return repeats == 0 && err == nil, err", "return repeats >= 0 && err == nil, err", mysqlFenceTests},
	{"MySQL fence: to install it again takes rights away", "fence/sqlfence/schema/mysql/functions.sql", "CREATE /*M! OR REPLACE */ FUNCTION /*!80029 IF NOT EXISTS */ leaderrun_once", "DROP FUNCTION IF EXISTS leaderrun_once//\nCREATE FUNCTION leaderrun_once", mysqlFenceTests},
	{"MySQL fence: a backslash in a name is printed as it is", "fence/sqlfence/mysql.go", "if plain(text) {", "if text != \"\" {", mysqlFenceTests},
	{"MySQL fence: the printed comments go on where my.cnf says so", "fence/sqlfence/schema/mysql/usage.sql", "--skip-force --init-command=\"SET @token", "--init-command=\"SET @token", mysqlFenceTests},
	{"MySQL fence: the printed script holds its locks for ever", "fence/sqlfence/schema/mysql/usage.sql", "$LEADERRUN_TOKEN, SESSION wait_timeout = 60", "$LEADERRUN_TOKEN, @unused = 'SESSION wait_timeout = 60'", mysqlFenceTests},
	{"SQLite fence: half of it can be installed", "fence/sqlfence/sqlite.go", "return \"BEGIN IMMEDIATE;\\n\\n\", \"\\nCOMMIT;\\n\"", "return \"\", \"\"", sqliteFenceTests},
	{"SQLite fence: a temporary table is taken for what is done", "fence/sqlfence/sqlite.go", "INSERT INTO main.leaderrun_done", "INSERT INTO leaderrun_done", sqliteFenceTests},
	{"SQLite fence: a name of bytes has a fence of its own", "fence/sqlfence/schema/sqlite/functions.sql", "typeof(NEW.resource) <> 'text'", "NEW.resource IS NULL", sqliteFenceTests},
	{"SQLite fence: the printed comments take a job for SQL", "fence/sqlfence/schema/sqlite/usage.sql", "\\\"CAST(X'$(hex \"$LEADERRUN_JOB\")' AS TEXT)\\\"", "\\\"'$LEADERRUN_JOB'\\\"", sqliteFenceTests},
}

var (
	redisFenceTests  = []string{"./fence/redisfence"}
	redisFenceSuite  = []string{"./fence/redisfence", "-run", "TestInterleavings"}
	redisClientTests = []string{"./internal/redisclient"}
)

var redisFenceMutants = []mutant{
	{"Redis fence: tokens are not compared", "fence/redisfence/fence.lua", "if highest and below(token, highest) then", "if false then", redisFenceSuite},
	{"Redis fence: an equal token is refused", "fence/redisfence/fence.lua", "and below(token, highest)", "and not below(highest, token)", redisFenceSuite},
	{"Redis fence: tokens are compared as numbers", "fence/redisfence/fence.lua", "  if #a ~= #b then return #a < #b end\n  return a < b", "  return tonumber(a) < tonumber(b)", redisFenceTests},
	{"Redis fence: tokens are compared as words", "fence/redisfence/fence.lua", "  if #a ~= #b then return #a < #b end\n", "", redisFenceTests},
	{"Redis fence: the check and the write are two steps", "fence/redisfence/redisfence.go", "return w.ask(ctx, order{wants: \"command\", keys: keysAmong(words[1:], hashTag(w.resource.Key())), args: words})", "if _, err := w.ask(ctx, order{wants: \"raise\"}); err != nil {\n\t\treturn nil, err\n\t}\n\treturn w.resource.client.(redis.UniversalClient).Do(ctx, words...).Result()", redisFenceSuite},
	{"Redis fence: to raise it does nothing", "fence/redisfence/redisfence.go", "if _, err := w.ask(ctx, order{wants: \"raise\"}); err != nil {", "if err := ctx.Err(); err != nil {", redisFenceSuite},
	{"Redis fence: a write does not raise a fence that was lost", "fence/redisfence/fence.lua", "if highest ~= token then redis", "if highest ~= token and wants == 'raise' then redis", redisFenceTests},
	{"Redis fence: it expires", "fence/redisfence/fence.lua", "redis.call('SET', fence, token)", "redis.call('SET', fence, token, 'EX', 100000)", redisFenceTests},
	{"Redis fence: what another wrote is overwritten", "fence/redisfence/fence.lua", "if highest and not istoken(highest) then return {'foreign', fence} end", "if highest and not istoken(highest) then highest = false end", redisFenceTests},
	{"Redis fence: keys are not announced", "fence/redisfence/redisfence.go", "keys: keysAmong(words[1:], hashTag(w.resource.Key())), ", "", redisFenceTests},
	{"Redis fence: what happened once is not looked at", "fence/redisfence/fence.lua", "if marked == 0 then", "if false then", redisFenceTests},
	{"Redis fence: what failed counts as done once", "fence/redisfence/fence.lua", "redis.pcall('ZREM', happened, occasion)\n", "", redisFenceTests},
	{"Redis fence: what happens once may leave its database", "fence/redisfence/fence.lua", "name == 'SELECT' or name == 'SWAPDB'", "name == 'SWAPDB'", redisFenceTests},
	{"Redis fence: what happens once may swap its database", "fence/redisfence/fence.lua", "name == 'SELECT' or name == 'SWAPDB'", "name == 'SELECT'", redisFenceTests},
	{"Redis fence: a mark is made that cannot be taken back", "fence/redisfence/fence.lua", "if type(removable) == 'table' then return refused(happened, removable) end\n", "", redisFenceTests},
	{"Redis fence: a lost reply is taken for a refusal", "fence/redisfence/errors.go", "if notSent(err) {", "if err != nil {", redisFenceTests},
	{"Redis fence: a garbled reply to a write is that of a stranger", "fence/redisfence/errors.go", "if o.wants == \"raise\" {", "if _, ok := find(strangerFaults, err); ok || o.wants == \"raise\" {", redisFenceTests},
	{"Redis fence: a write is sent again when its reply is lost", "fence/redisfence/ask.go", "var sent redis.Cmder = sentOnce{cmd}", "var sent redis.Cmder = cmd", redisFenceTests},
	{"Redis fence: a script that fails is an error of the server", "fence/redisfence/fence.lua", "  local text = failure(ok, reply)\n  if text then return {'failed', text} end", "  local text = failure(ok, reply)\n  if text then return redis.error_reply(text) end", redisFenceTests},
	{"Redis fence: what a script wrote before it failed is forgotten", "fence/redisfence/errors.go", "case o.wants != \"command\":", "case o.wants != \"command\" && !ok && !passes(err):", redisFenceTests},
	{"Redis fence: the client tries again by itself", "internal/redisclient/options.go", "MaxRetries:               -1,", "MaxRetries:               3,", redisClientTests},
	{"Redis fence: the client of a Cluster tries again by itself", "internal/redisclient/options.go", "MaxRedirects:             -1,", "MaxRedirects:             3,", redisClientTests},
	{"Redis fence: a Sentinel says what it should", "internal/redisclient/sentinel.go", "case len(words) != 2:", "case false:", redisClientTests},
	{"Redis fence: a Cluster has a client for each node that it names", "internal/redisclient/options.go", "if nodes.Add(1) > maxNodes {", "if nodes.Add(1) < 0 {", redisClientTests},
}

var s3FenceTests = []string{"./fence/s3fence"}

var s3FenceMutants = []mutant{
	{"S3 fence: tokens are not compared", "fence/s3fence/s3fence.go", "if found.pointer.Token > r.Token {", "if false {", s3FenceTests},
	{"S3 fence: an equal token is refused", "fence/s3fence/s3fence.go", "if found.pointer.Token > r.Token {", "if found.pointer.Token >= r.Token {", s3FenceTests},
	{"S3 fence: tokens are not compared before each write", "fence/s3fence/swap.go", "if err := s.object.overtaken(s.run, s.seen); err != nil {", "if err := s.object.overtaken(s.run, s.seen); err != nil && s.raises() {", s3FenceTests},
	{"S3 fence: the check and the write are two steps", "fence/s3fence/look.go", "return Condition{IfMatch: s.etag}", "return Condition{Always: true}", s3FenceTests},
	{"S3 fence: the pointer is made without a condition", "fence/s3fence/look.go", "return Condition{IfAbsent: true}", "return Condition{Always: true}", s3FenceTests},
	{"S3 fence: a condition that was forgotten always holds", "fence/s3fence/store.go", "if n != 1 {", "if n > 1 {", s3FenceTests},
	{"S3 fence: an object without an ETag is believed", "fence/s3fence/look.go", "case got.ETag == \"\":", "case false:", s3FenceTests},
	{"S3 fence: to raise it does nothing", "fence/s3fence/s3fence.go", "raising := swap{object: o, run: r, seen: found}\n\tif _, err := raising.do(ctx); err != nil {", "if err := ctx.Err(); err != nil {", s3FenceTests},
	{"S3 fence: to raise it again does nothing", "fence/s3fence/s3fence.go", "if found.pointer.Token < r.Token {", "if found.pointer.Token == r.Token {\n\t\treturn &Writer{object: o, run: r, turn: make(chan struct{}, 1)}, nil\n\t}\n\tif found.pointer.Token < r.Token {", s3FenceTests},
	{"S3 fence: a server is not probed", "fence/s3fence/s3fence.go", "if err := o.probe(ctx, !found.exists); err != nil {", "if err := ctx.Err(); err != nil {", s3FenceTests},
	{"S3 fence: a server is probed only once", "fence/s3fence/s3fence.go", "if err := o.probe(ctx, !found.exists); err != nil {", "if err := o.probe(ctx, true); err != nil && !found.exists {", s3FenceTests},
	{"S3 fence: the bytes of one and the ETag of the next are believed", "fence/s3fence/look.go", "!s.exists || s.isWhole() {", "!s.exists || len(s.etag) > 0 {", s3FenceTests},
	{"S3 fence: what another wrote is overwritten", "fence/s3fence/look.go", "case err != nil || len(raw) > pointerLimit:", "case len(raw) > pointerLimit:", s3FenceTests},
	{"S3 fence: a pointer of another key is believed", "fence/s3fence/pointer.go", "return p, errors.New(\"it is a pointer of another key\")", "return p, nil", s3FenceTests},
	{"S3 fence: a pointer is written that nobody can read", "fence/s3fence/pointer.go", "case err != nil || back != p:", "case err != nil || back.Token != p.Token:", s3FenceTests},
	{"S3 fence: a pointer is written that is too long to be read", "fence/s3fence/pointer.go", "case len(raw) > pointerLimit:", "case false:", s3FenceTests},
	{"S3 fence: a key is taken that no pointer can name", "fence/s3fence/s3fence.go", "case !utf8.ValidString(key):", "case !utf8.ValidString(key[:1]):", s3FenceTests},
	{"S3 fence: a key that was deleted is made anew", "fence/s3fence/swap.go", "case !s.seen.exists && !s.raises():", "case false:", s3FenceTests},
	{"S3 fence: data is overwritten", "fence/s3fence/s3fence.go", "strconv.FormatInt(token, 10) + \"-\" + newNonce()", "strconv.FormatInt(token, 10) + \"-\"", s3FenceTests},
	{"S3 fence: pointers can have the same bytes", "fence/s3fence/swap.go", "pointerFormat, newNonce(), s.object.Resource", "pointerFormat, \"0\", s.object.Resource", s3FenceTests},
	{"S3 fence: what was refused stays", "fence/s3fence/writer.go", "case end.unnamed:", "case false:", s3FenceTests},
	{"S3 fence: data is deleted that may be pointed to", "fence/s3fence/writer.go", "case end.unnamed:", "default:", s3FenceTests},
	{"S3 fence: data is deleted after an error that sounds final", "fence/s3fence/writer.go", "case end.unnamed:", "case end.unnamed || isSetup(err):", s3FenceTests},
	{"S3 fence: data is deleted that a deleted pointer may name", "fence/s3fence/swap.go", "case s.unclear && !found.exists:", "case false:", s3FenceTests},
	{"S3 fence: data is deleted that somebody reads", "fence/s3fence/writer.go", "w.object.discard(ctx, end.replaced.Previous)", "w.object.discard(ctx, end.replaced.Data)", s3FenceTests},
	{"S3 fence: data that nobody needs stays", "fence/s3fence/writer.go", "w.object.discard(ctx, end.replaced.Previous)", "_ = end", s3FenceTests},
	{"S3 fence: an upload without an answer stays", "fence/s3fence/writer.go", "mayBeThere = mayBeThere || !isRefusal(err)", "mayBeThere = err == nil", s3FenceTests},
	{"S3 fence: a write is not found that a later one replaced", "fence/s3fence/fate.go", "case p.Data == key || p.Previous == key:", "case p.Data == key:", s3FenceTests},
	{"S3 fence: a write that others replaced twice counts as not done", "fence/s3fence/fate.go", "\treturn mayHaveCome\n", "\treturn never\n", s3FenceTests},
	{"S3 fence: a write counts as not done when the first data is another's", "fence/s3fence/fate.go", "case found.exists && (p.Data", "case found.exists && (p.Previous == \"\" || seen.pointer.Data == \"\" || p.Data", s3FenceTests},
	{"S3 fence: deleted data is named again", "fence/s3fence/swap.go", "\t\ts.spent = true\n", "", s3FenceTests},
	{"S3 fence: a lost reply is taken for a refusal", "fence/s3fence/swap.go", "s.unclear = s.unclear || !isRefusal(err)", "s.unclear = false", s3FenceTests},
	{"S3 fence: the answer of a proxy is taken for a refusal", "fence/s3fence/answer.go", "ok && e.Code == \"\" {", "ok && e.Code == \"\" && err == nil {", s3FenceTests},
	{"S3 fence: a refusal counts though nobody could look", "fence/s3fence/swap.go", "return outcome{}, s.notKnown(lookErr)", "return outcome{}, s.failed(lookErr)", s3FenceTests},
	{"S3 fence: any success is taken for that of S3", "fence/s3fence/bucket.go", "case answer.StatusCode == http.StatusOK:", "case answer.StatusCode/100 == 2:", s3FenceTests},
	{"S3 fence: a body is read after its answer", "fence/s3fence/body.go", "\tb.mu.Lock()\n\tdefer b.mu.Unlock()\n\tb.over = true\n", "", s3FenceTests},
	{"S3 fence: collisions do not end", "fence/s3fence/swap.go", "case s.met > collisions:", "case s.met > 50*collisions:", s3FenceTests},
	{"S3 fence: nothing limits the silence", "fence/s3fence/swap.go", "deciding = 2 * time.Minute", "deciding = 2 * time.Hour", s3FenceTests},
	{"S3 fence: a password is shown", "fence/s3fence/bucket.go", "case err != nil || strings.ContainsAny(endpoint, \"@?#\"):", "case err != nil:", s3FenceTests},
	{"S3 fence: a reader does not look again", "fence/s3fence/read.go", "missing = s.pointer.Data\n\t\t\tcontinue", "return err", s3FenceTests},
	{"S3 fence: data is not compared with its hash", "fence/s3fence/read.go", "case n != p.Size || hex", "case n != p.Size && hex", s3FenceTests},
	{"S3 fence: a redirect is followed", "fence/s3fence/bucket.go", "return http.ErrUseLastResponse", "return nil", s3FenceTests},
	{"S3 fence: a slow server is given up", "fence/s3fence/bucket.go", "func (c *restless) Write(p []byte) (int, error) {\n\tif err := c.SetDeadline(", "func (c *restless) Write(p []byte) (int, error) {\n\tif err := c.SetWriteDeadline(", s3FenceTests},
}

var (
	httpFenceTests  = []string{"./fence/httpfence"}
	fenceProxyTests = []string{"./internal/command", "-run", "TestFenceHTTP"}
)

var httpFenceMutants = []mutant{
	{"HTTP: a token is not compared with the one that is kept", "fence/httpfence/guard.go", "return l.enter(ctx, token, highest)", "return l.enter(ctx, token, token)", httpFenceTests},
	{"HTTP: a newer request does not wait for an older one", "fence/httpfence/line.go", "if l.inside > 0 && l.token != token {", "if false {", httpFenceTests},
	{"HTTP: requests of one run wait for each other", "fence/httpfence/line.go", "if l.inside > 0 && l.token != token {", "if l.inside > 0 {", httpFenceTests},
	{"HTTP: a request that has waited is not compared again", "fence/httpfence/line.go", "if err := l.stale(token); err != nil {", "if err := error(nil); err != nil {", httpFenceTests},
	{"HTTP: a service is called before the token is kept", "fence/httpfence/guard.go", "highest, err := g.keep.Raise(ctx, l.resource, token)", "highest, err := token, error(nil)\n\tgo func() { _, _ = g.keep.Raise(ctx, l.resource, token) }()", httpFenceTests},
	{"HTTP: a token that cannot be kept counts", "fence/httpfence/guard.go", "return &KeepError{Resource: l.resource, Err: err}", "highest = token", httpFenceTests},
	{"HTTP: a panic keeps its place for ever", "fence/httpfence/guard.go", "defer l.leave()\n", "defer func() {\n\t\t\tif p := recover(); p != nil {\n\t\t\t\tpanic(p)\n\t\t\t}\n\t\t\tl.leave()\n\t\t}()\n", httpFenceTests},
	{"HTTP: what changes something needs no token", "fence/httpfence/guard.go", "case errors.Is(err, errNoToken) && !MayChange(r):", "case errors.Is(err, errNoToken) && r != nil:", httpFenceTests},
	{"HTTP: a WebSocket needs no token", "fence/httpfence/httpfence.go", "return len(others) > 0", "return len(others) > 99", httpFenceTests},
	{"HTTP: who waits in vain is told that the fence is raised", "fence/httpfence/guard.go", "status := http.StatusServiceUnavailable\n", "status := http.StatusServiceUnavailable\n\tw.Header().Set(Header, r.Header.Get(Header))\n", httpFenceTests},
	{"HTTP: resources are forgotten to make room", "fence/httpfence/keeper.go", "return 0, errFull", "clear(m.highest)", httpFenceTests},
	{"HTTP: a directory believes what it has kept", "fence/httpfence/directory.go", "err == nil && highest == token {", "err == nil && highest > 0 {", httpFenceTests},
	{"HTTP: a service that does not fence is taken for one that does", "fence/httpfence/resource.go", "case highest == r.Token:", "case highest == r.Token, highest == 0:", httpFenceTests},
	{"HTTP: a write follows a redirect to where no fence is", "fence/httpfence/resource.go", "case MayChange(r):", "case false:", httpFenceTests},
	{"HTTP: a raise follows a redirect", "fence/httpfence/resource.go", "return http.ErrUseLastResponse }", "return nil }", httpFenceTests},
	{"fence http: a request is given up with its client", "internal/command/fence_http_forward.go", "if p.holds {", "if false {", fenceProxyTests},
	{"fence http: the rest of an answer is given up with its client", "internal/command/fence_http_passage.go", "_, _ = io.Copy(io.Discard, b.ReadCloser)\n", "", fenceProxyTests},
	{"fence http: a service that does not answer keeps others out for ever", "internal/command/fence_http_passage.go", "p.cancel(errSlow)\n", "", fenceProxyTests},
	{"fence http: the end of a request is taken away when its answer begins", "internal/command/fence_http_forward.go", "_ = p.answer.EnableFullDuplex() // ", "// ", fenceProxyTests},
	{"HTTP: a run that reads keeps newer ones out", "fence/httpfence/guard.go", "if MayChange(r) {\n\t\tdefer", "if r != nil {\n\t\tdefer", httpFenceTests},
	{"HTTP: what goes on in another protocol holds nobody up", "fence/httpfence/guard.go", "if MayChange(r) {\n\t\tdefer", "if r.Method != http.MethodGet {\n\t\tdefer", httpFenceTests},
	{"HTTP: a keeper may keep less than the token", "fence/httpfence/guard.go", "if err == nil && highest < token {", "if false {", httpFenceTests},
	{"HTTP: an older run is told of a token that is not kept", "fence/httpfence/guard.go", "highest, err := g.keep.Raise(ctx, l.resource, token)", "l.raise(token)\n\thighest, err := g.keep.Raise(ctx, l.resource, token)", httpFenceTests},
	{"HTTP: the offer of HTTP/2 is passed on", "fence/httpfence/guard.go", "r = withoutH2C(r)\n", "", httpFenceTests},
	{"HTTP: a run raises the fences of services that it reads from", "fence/httpfence/resource.go", "return n.elsewhere.RoundTrip(r)", "return n.fenced.RoundTrip(r)", httpFenceTests},
	{"HTTP: two own a resource", "fence/filefence/own.go", "if f == nil {", "if false {", httpFenceTests},
	{"fence http: what is broken off counts as done", "internal/command/fence_http_passage.go", "\tif p.holds {\n\t\tp.breakOff()\n\t}\n", "", fenceProxyTests},
	{"fence http: a service is not told that a request was broken off", "internal/command/fence_http_passage.go", "_ = conn.CloseWrite()\n", "", fenceProxyTests},
	{"fence http: the end of what was broken off is not seen", "internal/command/fence_http_passage.go", "close(c.closed)", "_ = c.closed", fenceProxyTests},
	{"fence http: a WebSocket ends with its client", "internal/command/fence_http_passage.go", "_, _ = io.Copy(io.Discard, struct{ io.Reader }{b})\n", "", fenceProxyTests},
	{"fence http: the end of a WebSocket is not waited for", "internal/command/fence_http_passage.go", "_ = p.upgraded.Close()\n", "", fenceProxyTests},
	{"fence http: a client that stands still in its request keeps others out", "internal/command/fence_http_passage.go", "_ = p.answer.SetReadDeadline(time.Now().Add(p.patience))\n", "", fenceProxyTests},
	{"fence http: a client that does not take its answer keeps others out", "internal/command/fence_http_passage.go", "b.passage.tell()\n\treturn n, err\n}\n\nfunc (b *restOfAnswer) Close()", "return n, err\n}\n\nfunc (b *restOfAnswer) Close()", fenceProxyTests},
	{"fence http: a client that does not read its WebSocket keeps others out", "internal/command/fence_http_passage.go", "b.passage.tell()\n\treturn n, err\n}\n\n// CloseWrite", "return n, err\n}\n\n// CloseWrite", fenceProxyTests},
	{"fence http: a client has only so long to send", "internal/command/fence_http_forward.go", "r.Body = &clientBody{r.Body, p}", "_ = &clientBody{r.Body, p}", []string{"./internal/command", "-run", "TestFenceHTTPLetsSlowClientsSend"}},
	{"fence http: a request is sent twice", "internal/command/fence_http_forward.go", "\tonlyOnce(r.Out.Header)\n", "", fenceProxyTests},
	{"fence http: a service redirects to itself", "internal/command/fence_http_forward.go", "r.Out.Host = r.In.Host\n", "", fenceProxyTests},
	{"fence http: a redirect leads around the fence", "internal/command/fence_http_forward.go", "r.Header.Set(\"Location\", f.outside(to))", "_ = f.outside(to)", fenceProxyTests},
	{"fence http: two proxies have a resource", "internal/command/fence_http.go", "release, err = keep.Own(name)", "release = func() {}", []string{"./internal/command", "-run", "TestScripts/fence-http"}},
	{"fence http: ends before a WebSocket has", "internal/command/fence_http.go", "&& p.onward.idle(ctx)", "", fenceProxyTests},
	{"fence http: a WebSocket is open for as long as the proxy drains", "internal/command/fence_http.go", "server.RegisterOnShutdown(p.onward.hangUp)\n", "", fenceProxyTests},
	{"fence http: OPTIONS * passes the fence", "internal/command/fence_http.go", "DisableGeneralOptionsHandler: true,", "DisableGeneralOptionsHandler: false,", fenceProxyTests},
	{"fence http: forgets at a restart", "internal/command/fence_http.go", "Keep:     keep,", "Keep:     new(httpfence.Memory),", fenceProxyTests},
}
