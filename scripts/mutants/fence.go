package main

import "slices"

// fenceMutants break the rules of fenced resources.
var fenceMutants = slices.Concat(fileFenceMutants, sqlFenceMutants, redisFenceMutants, s3FenceMutants, httpFenceMutants)

var (
	fileFenceSuite   = []string{"./fence/filefence", "-run", "TestSuite"}
	fileFenceTests   = []string{"./fence/filefence", "-skip", "TestSuite"}
	fileFenceScripts = []string{"./internal/command", "-run", "TestScripts/fence-file"}
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
	{"file fence: a name is not on the disk when it is told to be", "fence/filefence/filefence.go", "if err := t.syncDir(t.dir); err != nil {", "if err := error(nil); err != nil {", fileFenceTests},
	{"file fence: the token is not on the disk before its name", "fence/filefence/token.go", "if err == nil {\n\t\terr = t.sync(tmp.file)\n\t}\n", "", fileFenceTests},
	{"file fence: the token's name is not on the disk when it is told to be", "fence/filefence/token.go", "return err\n\t}\n\treturn t.syncDir(t.dir)", "return err\n\t}\n\treturn nil", fileFenceTests},
	{"file fence: a token that another process wrote is taken to be on the disk", "fence/filefence/token.go", "before this.\n\t\treturn t.syncDir(t.dir)", "before this.\n\t\treturn nil", fileFenceTests},
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
	{"SQL fence: to raise it does nothing", "fence/sqlfence/sqlfence.go", "\tif err := w.Tx(ctx, r.dialect.raiseOptions(), func(*sql.Tx) error { return nil }); err != nil {\n\t\treturn nil, err\n\t}\n", "", sqliteFenceTests},
	{"SQL fence: the check and the write are two transactions", "fence/sqlfence/sqlfence.go", "\tif err := do(tx); err != nil {", "\t_ = tx.Commit()\n\tif tx, err = w.resource.db.BeginTx(ctx, options); err != nil {\n\t\treturn err\n\t}\n\tif err := do(tx); err != nil {", postgresFenceTests},
	{"SQL fence: a commit that nobody confirmed is taken for done", "fence/sqlfence/sqlfence.go", "return w.resource.uncommitted(err)", "return nil", postgresFenceTests},
	{"SQL fence: a commit that was refused is taken for unknown", "fence/sqlfence/explain.go", "if conflict || strings.HasPrefix(state, \"23\") {", "if conflict {", postgresFenceTests},
	{"SQL fence: a callback that failed is committed", "fence/sqlfence/sqlfence.go", "\tif err := do(tx); err != nil {\n\t\treturn err\n\t}\n", "\t_ = do(tx)\n", sqliteFenceTests},
	{"SQL fence: what is done once is not looked at", "fence/sqlfence/dialect.go", "return made > 0, err", "return made >= 0, err", sqliteFenceTests},
	{"SQL fence: every tick is done", "fence/sqlfence/dialect.go", "return made > 0, err", "return made < 0, err", sqliteFenceTests},
	{"PostgreSQL fence: tokens are not compared", "fence/sqlfence/dialect.go", " WHERE f.token <= excluded.token", "", postgresFenceTests},
	{"PostgreSQL fence: the same token locks the row and does not write it", "fence/sqlfence/dialect.go", "f.token <= excluded.token", "f.token < excluded.token", postgresFenceTests},
	{"PostgreSQL fence: the function does not compare tokens", "fence/sqlfence/schema/postgres/functions.sql", " WHERE f.token <= excluded.token;", ";", postgresFenceTests},
	{"PostgreSQL fence: the function refuses an equal token", "fence/sqlfence/schema/postgres/functions.sql", "f.token <= excluded.token;", "f.token < excluded.token;", postgresFenceTests},
	{"PostgreSQL fence: a temporary table is taken for the fence", "fence/sqlfence/schema/postgres/functions.sql", "leaderrun_fence(text, bigint) SET search_path = %I, pg_temp", "leaderrun_fence(text, bigint) SET search_path = %I", postgresFenceTests},
	{"PostgreSQL fence: every tick is the first", "fence/sqlfence/schema/postgres/functions.sql", "RETURN FOUND;", "RETURN true;", postgresFenceTests},
	{"PostgreSQL fence: the printed comments forget the transaction", "fence/sqlfence/schema/postgres/usage.sql", "--   BEGIN;\n--   SELECT leaderrun_fence('invoices', :'token') \\gset\n--   SELECT leaderrun_once", "--   SELECT leaderrun_fence('invoices', :'token') \\gset\n--   SELECT leaderrun_once", postgresFenceTests},
	{"MySQL fence: the token goes down", "fence/sqlfence/dialect.go", "token = GREATEST(token, ?)", "token = ?", mysqlFenceTests},
	{"MySQL fence: it reads before it locks", "fence/sqlfence/dialect.go", "\t_, err := tx.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES (?, ?)\nON", "\t_, _ = number(ctx, tx, \"SELECT token FROM leaderrun_fence WHERE resource = ?\", resource)\n\t_, err := tx.ExecContext(ctx, `INSERT INTO leaderrun_fence (resource, token) VALUES (?, ?)\nON", mysqlFenceTests},
	{"MySQL fence: names are compared as a language does", "fence/sqlfence/schema/mysql/tables.sql", "resource VARBINARY(255)", "resource VARCHAR(255)", mysqlFenceTests},
	{"MySQL fence: the function does not compare tokens", "fence/sqlfence/schema/mysql/functions.sql", "highest IS NULL OR highest > mine", "highest IS NULL", mysqlFenceTests},
	{"MySQL fence: the function cuts long names off", "fence/sqlfence/schema/mysql/functions.sql", "fenced VARBINARY(1000)", "fenced VARBINARY(255)", mysqlFenceTests},
	{"MySQL fence: every tick is the first", "fence/sqlfence/schema/mysql/functions.sql", "SET is_first = FALSE", "SET is_first = TRUE", mysqlFenceTests},
	{"SQLite fence: tokens are not compared", "fence/sqlfence/dialect.go", "SET token = ? WHERE resource = ? AND token <= ?", "SET token = ? WHERE resource = ? AND token <> -?", sqliteFenceTests},
	{"SQLite fence: it reads before it locks", "fence/sqlfence/dialect.go", "\tkept, err := rows(tx.ExecContext(ctx,\n", "\t_, _ = number(ctx, tx, \"SELECT token FROM leaderrun_fence WHERE resource = ?\", resource)\n\tkept, err := rows(tx.ExecContext(ctx,\n", sqliteFenceTests},
	{"SQLite fence: the trigger does not compare tokens", "fence/sqlfence/schema/sqlite/functions.sql", " AND token > NEW.token", " AND 0", sqliteFenceTests},
	{"SQLite fence: the printed comments let sqlite3 go on", "fence/sqlfence/schema/sqlite/usage.sql", "FILE <<'SQL'\n--   .bail on\n--   .timeout 10000\n--   BEGIN IMMEDIATE;\n--   INSERT INTO leaderrun_fence (resource, token) VALUES ('invoices', :token);\n--   INSERT", "FILE <<'SQL'\n--   .bail off\n--   .timeout 10000\n--   BEGIN IMMEDIATE;\n--   INSERT INTO leaderrun_fence (resource, token) VALUES ('invoices', :token);\n--   INSERT", sqliteFenceTests},
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
	{"Redis fence: the check and the write are two steps", "fence/redisfence/redisfence.go", "reply, err := w.ask(ctx, order{wants: \"command\", keys: keysAmong(words[1:], hashTag(w.resource.Key())), args: words})", "_, err := w.ask(ctx, order{wants: \"raise\"})\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\treply, err := w.resource.client.(redis.UniversalClient).Do(ctx, words...).Result()", redisFenceSuite},
	{"Redis fence: to raise it does nothing", "fence/redisfence/redisfence.go", "if _, err := w.ask(ctx, order{wants: \"raise\"}); err != nil {", "if err := ctx.Err(); err != nil {", redisFenceSuite},
	{"Redis fence: a write does not raise a fence that was lost", "fence/redisfence/fence.lua", "if highest ~= token then redis", "if highest ~= token and wants == 'raise' then redis", redisFenceTests},
	{"Redis fence: it expires", "fence/redisfence/fence.lua", "redis.call('SET', fence, token)", "redis.call('SET', fence, token, 'EX', 100000)", redisFenceTests},
	{"Redis fence: what another wrote is overwritten", "fence/redisfence/fence.lua", "if highest and not istoken(highest) then return {'foreign', fence} end", "if highest and not istoken(highest) then highest = false end", redisFenceTests},
	{"Redis fence: keys are not announced", "fence/redisfence/redisfence.go", "keys: keysAmong(words[1:], hashTag(w.resource.Key())), ", "", redisFenceTests},
	{"Redis fence: what happened once is not looked at", "fence/redisfence/fence.lua", "if marked == 0 then", "if false then", redisFenceTests},
	{"Redis fence: what failed counts as done once", "fence/redisfence/fence.lua", "  redis.call('ZREM', happened, occasion)\n", "", redisFenceTests},
	{"Redis fence: a lost reply is taken for a refusal", "fence/redisfence/errors.go", "if o.wants == \"raise\" || notSent(err) {", "if err != nil {", redisFenceTests},
	{"Redis fence: the client tries again by itself", "internal/redisclient/options.go", "MaxRetries:               -1,", "MaxRetries:               3,", redisClientTests},
	{"Redis fence: the client of a Cluster tries again by itself", "internal/redisclient/options.go", "MaxRedirects:             -1,", "MaxRedirects:             3,", redisClientTests},
}

var s3FenceTests = []string{"./fence/s3fence"}

var s3FenceMutants = []mutant{
	{"S3 fence: tokens are not compared before", "fence/s3fence/s3fence.go", "case found.pointer.Token > r.Token:", "case false:", s3FenceTests},
	{"S3 fence: tokens are not compared after a refusal", "fence/s3fence/swap.go", "case found.pointer.Token > r.Token:", "case false:", s3FenceTests},
	{"S3 fence: an equal token is refused", "fence/s3fence/s3fence.go", "case found.pointer.Token > r.Token:", "case found.pointer.Token >= r.Token:", s3FenceTests},
	{"S3 fence: the check and the write are two steps", "fence/s3fence/pointer.go", "return Condition{IfMatch: s.etag, IfAbsent: s.absent()}", "return Condition{}", s3FenceTests},
	{"S3 fence: the pointer is made without a condition", "fence/s3fence/pointer.go", "IfMatch: s.etag, IfAbsent: s.absent()", "IfMatch: s.etag", s3FenceTests},
	{"S3 fence: to raise it does nothing", "fence/s3fence/s3fence.go", "case found.pointer.Token == r.Token:", "case !found.absent():", s3FenceTests},
	{"S3 fence: a server is not probed", "fence/s3fence/s3fence.go", "if err := o.probe(ctx, found.absent()); err != nil {", "if err := ctx.Err(); err != nil {", s3FenceTests},
	{"S3 fence: a server is probed only once", "fence/s3fence/s3fence.go", "if err := o.probe(ctx, found.absent()); err != nil {", "if err := o.probe(ctx, true); err != nil && found.absent() {", s3FenceTests},
	{"S3 fence: the bytes of one and the ETag of the next are believed", "fence/s3fence/pointer.go", "s.absent() || s.isWhole() {", "s.absent() || len(s.etag) > 0 {", s3FenceTests},
	{"S3 fence: what another wrote is overwritten", "fence/s3fence/pointer.go", "if err != nil || len(raw) > pointerLimit {", "if len(raw) > pointerLimit {", s3FenceTests},
	{"S3 fence: a pointer of another key is believed", "fence/s3fence/pointer.go", "return p, errors.New(\"it is a pointer of another key\")", "return p, nil", s3FenceTests},
	{"S3 fence: a key that was deleted is made anew", "fence/s3fence/swap.go", "case found.absent() && !c.mayCreate:", "case false:", s3FenceTests},
	{"S3 fence: data is overwritten", "fence/s3fence/s3fence.go", "strconv.FormatInt(token, 10) + \"-\" + newNonce()", "strconv.FormatInt(token, 10) + \"-\"", s3FenceTests},
	{"S3 fence: pointers can have the same bytes", "fence/s3fence/swap.go", "pointerFormat, newNonce(), o.Resource", "pointerFormat, \"0\", o.Resource", s3FenceTests},
	{"S3 fence: what was refused stays", "fence/s3fence/writer.go", "if isDefinite(err) {", "if err == nil {", s3FenceTests},
	{"S3 fence: data is deleted that may be pointed to", "fence/s3fence/writer.go", "if isDefinite(err) {", "if err != nil {", s3FenceTests},
	{"S3 fence: data is deleted that somebody reads", "fence/s3fence/writer.go", "w.object.discard(ctx, before.pointer.Previous)", "w.object.discard(ctx, before.pointer.Data)", s3FenceTests},
	{"S3 fence: data that nobody needs stays", "fence/s3fence/writer.go", "w.object.discard(ctx, before.pointer.Previous)", "_ = before", s3FenceTests},
	{"S3 fence: a write is not found that a later one replaced", "fence/s3fence/writer.go", "return p.Data == key || p.Previous == key", "return p.Data == key", s3FenceTests},
	{"S3 fence: a lost reply is taken for a refusal", "fence/s3fence/swap.go", "unclear = unclear || !errors.Is", "unclear = unclear && !errors.Is", s3FenceTests},
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
	{"HTTP: a token is not compared with the one that is kept", "fence/httpfence/line.go", "if highest > token {", "if false {", httpFenceTests},
	{"HTTP: a newer request does not wait for an older one", "fence/httpfence/line.go", "if l.inside > 0 && l.token != token {", "if false {", httpFenceTests},
	{"HTTP: requests of one run wait for each other", "fence/httpfence/line.go", "if l.inside > 0 && l.token != token {", "if l.inside > 0 {", httpFenceTests},
	{"HTTP: a request that has waited is not compared again", "fence/httpfence/line.go", "if token < l.highest {\n\t\treturn nil, ", "if false {\n\t\treturn nil, ", httpFenceTests},
	{"HTTP: a service is called before the token is kept", "fence/httpfence/line.go", "highest, err := g.keep.Raise(ctx, l.resource, token)", "highest, err := token, error(nil)\n\tgo func() { _, _ = g.keep.Raise(ctx, l.resource, token) }()", httpFenceTests},
	{"HTTP: a token that cannot be kept counts", "fence/httpfence/line.go", "return &KeepError{Resource: l.resource, Err: err}", "highest = token", httpFenceTests},
	{"HTTP: a panic keeps its place for ever", "fence/httpfence/httpfence.go", "defer g.leave(l)\n\tw.Header().Set(Header, strconv.FormatInt(token, 10))\n\tg.next.ServeHTTP(w, r)", "w.Header().Set(Header, strconv.FormatInt(token, 10))\n\tg.next.ServeHTTP(w, r)\n\tg.leave(l)", httpFenceTests},
	{"HTTP: what changes something needs no token", "fence/httpfence/httpfence.go", "case errors.Is(err, errNoToken) && isSafe(r):", "case errors.Is(err, errNoToken) && r != nil:", httpFenceTests},
	{"HTTP: a WebSocket needs no token", "fence/httpfence/httpfence.go", "return r.Header.Get(\"Upgrade\") == \"\"", "return true", httpFenceTests},
	{"HTTP: who waits in vain is told that the fence is raised", "fence/httpfence/httpfence.go", "status := http.StatusServiceUnavailable\n", "status := http.StatusServiceUnavailable\n\tw.Header().Set(Header, r.Header.Get(Header))\n", httpFenceTests},
	{"HTTP: resources are forgotten to make room", "fence/httpfence/keeper.go", "return 0, errFull", "clear(m.highest)", httpFenceTests},
	{"HTTP: a directory believes what it has kept", "fence/httpfence/directory.go", "err == nil && highest == token {", "err == nil && highest > 0 {", httpFenceTests},
	{"HTTP: a service that does not fence is taken for one that does", "fence/httpfence/resource.go", "case highest == r.Token:", "case highest == r.Token, highest == 0:", httpFenceTests},
	{"HTTP: a write follows a redirect to where no fence is", "fence/httpfence/resource.go", "if !isSafe(r) && (", "if r == nil && (", httpFenceTests},
	{"HTTP: a raise follows a redirect", "fence/httpfence/resource.go", "return http.ErrUseLastResponse }", "return nil }", httpFenceTests},
	{"fence http: a request is given up with its client", "internal/command/fence_http_forward.go", "if p.mayChange(r) {", "if false {", fenceProxyTests},
	{"fence http: the rest of an answer is given up with its client", "internal/command/fence_http_forward.go", "r.Body = toItsEnd{r.Body}", "_ = toItsEnd{r.Body}", fenceProxyTests},
	{"fence http: a client that is stopped keeps others out for ever", "internal/command/fence_http_forward.go", "p.cancel(errSlow)\n", "", fenceProxyTests},
	{"fence http: the end of a request is taken away when its answer begins", "internal/command/fence_http_forward.go", "_ = http.NewResponseController(w).EnableFullDuplex() // ", "// ", []string{"./internal/command", "-run", "TestFenceHTTPHolds", "-count", "300"}},
	{"fence http: forgets at a restart", "internal/command/fence_http.go", "Keep:     keep,", "Keep:     new(httpfence.Memory),", fenceProxyTests},
}
