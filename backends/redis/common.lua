-- common.lua is put in front of every other script. It reads what the store holds about one job and has the
-- steps that the scripts share. The decisions are those of ../decide.go, ../keep.go and ../mark.go, which
-- say why; decide_test.go proves that both decide alike.
--
-- KEYS  1 lease   string "holder|token" with an expiry
--       2 record  hash without one; lists are JSON in one field each
--       3 mark    hash: which server this is (one per store; in Cluster one per job)
-- ARGV  1 nonce of the request, echoed as the first element of the reply: a reply that belongs to another
--         request is recognised (CVE-2025-29923)
--
-- Everything is read and decided before the first write: a script that fails has changed nothing.
-- Times are milliseconds of the server's clock: 13 digits, exact in Lua's numbers and in cjson's "%.14g".
local lease_key, record_key, mark_key = KEYS[1], KEYS[2], KEYS[3]
local nonce = ARGV[1]

local function num(s)
  if not s or s == '' then return 0 end
  return tonumber(s) or error('a number was expected, not ' .. s)
end

local function int(n) return string.format('%.0f', n) end

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local now = clock()

local function info(section) return redis.call('INFO', section) end
local function fact(text, name) return text:match('[\r\n]' .. name .. ':([^\r\n]*)') end

-- must_be_master stops the script on a replica: what it shows may be old.
local function must_be_master(replication)
  if fact(replication, 'role') ~= 'master' then
    error('LEADERRUN-REPLICA this server is not the master')
  end
end

-- broken ends the script: a key holds what leaderrun did not write, and only a human can mend it.
local function broken(key, what) error('LEADERRUN-BROKEN key ' .. key .. ': ' .. what) end

-- read is what a key holds, by a command that reads it.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if reply.err:find('WRONGTYPE', 1, true) then broken(key, 'it is of another type') end
  return redis.call(command, key, ...) -- fails in this server's own words
end

-- hash reads a hash into a table.
local function hash(key)
  local flat, t = read('HGETALL', key), {}
  for i = 1, #flat, 2 do t[flat[i]] = flat[i + 1] end
  return t
end

-- exact says whether neither Lua nor cjson rounds a number.
local limit = 1e14
local function exact(n) return n > -limit and n < limit end

-- field reads a number of a hash.
local function field(key, t, name)
  local s = t[name]
  if not s or s == '' then return 0 end
  local n = s:find('^%-?%d+$') and tonumber(s)
  if not n or not exact(n) then
    broken(key, 'field ' .. name .. ' is no number that leaderrun writes: ' .. s:sub(1, 40):gsub('[%c]', '?'))
  end
  return n
end

-- r is the record, stored is its hash as it was read. A field that is missing is zero.
local stored, r = hash(record_key), nil
local function kept(name) return field(record_key, stored, name) end

local function holder(id, prefix)
  return {id = stored[id] or '', host = stored[prefix .. 'host'] or '', pid = kept(prefix .. 'pid'), user = stored[prefix .. 'user'] or ''}
end

r = {
  job = stored.job or '', holder = holder('holder', ''),
  token = kept('token'), ttl = kept('ttl'), granted = kept('granted'), till = kept('until'),
  beat = kept('beat'), released = kept('released'), ended = kept('ended'), passed = kept('passed'),
  tick = {
    tick = kept('tick'), state = stored.tick_state or '', claimant = holder('tick_holder', 'tick_'),
    policy = stored.tick_policy or '', attempt = kept('tick_attempt'), max_attempts = kept('tick_max_attempts'),
  },
  schedule = {
    fingerprint = stored.fingerprint or '', text = stored.schedule or '',
    by = holder('schedule_holder', 'schedule_'), at = kept('schedule_at'),
  },
  stop = stored['break'], -- JSON, or nil
}
local has_record = r.token ~= 0

-- decode is a field that is JSON, if it fits.
local function decode(name, fits)
  local ok, value = pcall(cjson.decode, stored[name])
  if not ok or type(value) ~= 'table' or not fits(value) then broken(record_key, 'field ' .. name .. ' is no JSON that leaderrun writes') end
  return value
end

-- typed says whether the members of a table, where it has them, are of the types that names tells.
local function typed(t, names)
  if type(t) ~= 'table' then return false end
  for name, kind in pairs(names) do
    local v = t[name]
    if v ~= nil and (type(v) ~= kind or kind == 'number' and not exact(v)) then return false end
  end
  return true
end

local states = {open = true, claimed = true, done = true, failed = true, stopped = true, lost = true, missed = true}
local holder_types = {id = 'string', host = 'string', pid = 'number', user = 'string'}

-- entry_types are what the scripts look at in the entries of a list; by is who made it.
local entry_types = {
  runs = {by = 'holder', has = {
    token = 'number', tick = 'number', key = 'string', attempt = 'number', started = 'number', ended = 'number',
    state = 'string', exit = 'number',
  }},
  once = {by = 'claimant', has = {
    tick = 'number', key = 'string', state = 'string', policy = 'string', attempt = 'number', max_attempts = 'number',
  }},
  former = {by = 'by', has = {fingerprint = 'string', text = 'string', at = 'number'}},
}

local function listed(name)
  return function(l)
    local t = entry_types[name]
    local n = 0
    for _ in pairs(l) do n = n + 1 end
    if n ~= #l then return false end
    for _, x in ipairs(l) do
      local fits = type(x) == 'string'
      if t then fits = typed(x, t.has) and typed(x[t.by], holder_types) and (not t.has.state or states[x.state]) end
      if not fits then return false end
    end
    return true
  end
end

if r.tick.tick ~= 0 and not states[r.tick.state] then broken(record_key, 'field tick_state is no state of a tick') end

-- break_request is what an operator asked for, or nil.
local function break_request()
  if not r.stop or r.stop == '' then return nil end
  return decode('break', function(b)
    return typed(b, {token = 'number', by = 'table', reason = 'string', at = 'number'}) and typed(b.by or {}, holder_types)
  end)
end

-- The lists runs, once, former and refused are decoded when somebody asks, and written if edited.
local lists, edited = {}, {}

local function list(name)
  if not lists[name] then lists[name] = stored[name] and decode(name, listed(name)) or {} end
  return lists[name]
end

local function edit(name)
  edited[name] = true
  return list(name)
end

-- push puts an entry at the head of a list and keeps the first n.
local function push(name, entry, n)
  local l = edit(name)
  table.insert(l, 1, entry)
  while #l > n do table.remove(l) end
end

local function find(name, matches)
  for i, x in ipairs(list(name)) do
    if matches(x) then return x, i end
  end
end

-- save writes the fields of the record that differ. The empty array of cjson is "{}": an empty list has no field.
local function save()
  local set, gone = {}, {}
  local function put(field, value)
    if value == '' or value == '0' then
      if stored[field] then gone[#gone + 1] = field end
    elseif stored[field] ~= value then
      set[#set + 1], set[#set + 2] = field, value
    end
  end
  local function put_holder(h, id, prefix)
    put(id, h.id)
    put(prefix .. 'host', h.host)
    put(prefix .. 'pid', int(h.pid))
    put(prefix .. 'user', h.user)
  end
  put('job', r.job)
  put_holder(r.holder, 'holder', '')
  put('token', int(r.token))
  put('ttl', int(r.ttl))
  put('granted', int(r.granted))
  put('until', int(r.till))
  put('beat', int(r.beat))
  put('released', int(r.released))
  put('ended', int(r.ended))
  put('passed', int(r.passed))
  put('tick', int(r.tick.tick))
  put('tick_state', r.tick.state)
  put_holder(r.tick.claimant, 'tick_holder', 'tick_')
  put('tick_policy', r.tick.policy)
  put('tick_attempt', int(r.tick.attempt))
  put('tick_max_attempts', int(r.tick.max_attempts))
  put('fingerprint', r.schedule.fingerprint)
  put('schedule', r.schedule.text)
  put('schedule_at', int(r.schedule.at))
  put_holder(r.schedule.by, 'schedule_holder', 'schedule_')
  put('break', r.stop or '')
  for name in pairs(edited) do
    local entries = {}
    for i, x in ipairs(lists[name]) do entries[i] = cjson.encode(x) end
    put(name, #entries > 0 and '[' .. table.concat(entries, ',') .. ']' or '')
  end
  if #set > 0 then redis.call('HSET', record_key, unpack(set)) end
  if #gone > 0 then redis.call('HDEL', record_key, unpack(gone)) end
end

-- lease is the valid lease, or nil. One whose expiry was taken away counts as renewed just now.
local lease
do
  local s = read('GET', lease_key)
  if s then
    local id, token = s:match('^([^|]+)|(%d+)$')
    if not id or not exact(tonumber(token)) then broken(lease_key, 'it holds something that leaderrun did not write') end
    lease = {holder = id, token = tonumber(token), left = redis.call('PTTL', lease_key)}
    if lease.left < 0 then lease.left = r.ttl end
  end
end

local function put_lease(id, token, ttl) redis.call('SET', lease_key, id .. '|' .. int(token), 'PX', int(ttl)) end

-- tell wakes those who wait, and the holder if it watches. Without the right to PUBLISH they wake by their timers.
local function tell() redis.pcall('PUBLISH', lease_key, int(r.token)) end

local function release()
  redis.call('DEL', lease_key)
  tell()
end

-- The steps of keep.go and record.go.
local function run_of(token)
  return token ~= 0 and find('runs', function(x) return x.token == token end) or nil
end

local kept_keys = 100

local function note(run) push('runs', run, 20) end

-- o is what is recorded of the tick or key that the run is for.
local function restore(job, token, o)
  if r.token > token or run_of(token) then return end
  r.job, r.token, r.holder, r.granted = job, token, o.claimant, now
  r.beat = math.max(r.beat, now)
  note({
    token = token, holder = o.claimant, tick = o.tick, key = o.key, attempt = o.attempt, started = now,
    state = 'claimed', exit = 0,
  })
  if o.tick > r.tick.tick then r.tick = o end
  if o.key ~= '' and not find('once', function(x) return x.key == o.key end) then push('once', o, kept_keys) end
end

-- occurrence reads what restore needs from the arguments that begin at i: once, policy, maximum of attempts, attempt.
local function occurrence(by, tick, i)
  return {
    tick = num(tick), key = ARGV[i], state = 'claimed', claimant = by,
    policy = ARGV[i + 1], attempt = num(ARGV[i + 3]), max_attempts = num(ARGV[i + 2]),
  }
end

local function extend(ttl)
  r.ttl, r.till, r.beat = ttl, now + ttl, r.beat + 1
end

local function settle(o, id, state)
  if o.claimant.id ~= id then return end
  o.state = state
  if state == 'open' then
    o.attempt = (o.attempt or 0) - 1
    if o.attempt > 0 then o.state = 'lost' end
  end
end

local function break_note(stop)
  local by = stop.by or {}
  local text = 'broken by ' .. (by.user or '') .. ' on ' .. (by.host or '')
  if (stop.reason or '') ~= '' then text = text .. ': ' .. stop.reason end
  return text
end

local function finish_run(id, state, exit)
  local asked = break_request()
  r.released, r.ended, r.stop = r.token, now, nil
  edit('runs')
  local run = run_of(r.token)
  if not run then
    run = {token = r.token, holder = r.holder, attempt = 1, started = r.granted}
    note(run)
  end
  run.state, run.exit, run.ended = state, exit, now
  if state == 'stopped' and asked and asked.token == r.token then run.note = break_note(asked) end
  if (run.tick or 0) ~= 0 and r.tick.tick == run.tick then settle(r.tick, id, state) end
  if (run.key or '') ~= '' then
    local o = find('once', function(x) return x.key == run.key end)
    if o then
      edit('once')
      settle(o, id, state)
    end
  end
end

-- replicas_online counts the replicas that can acknowledge. A client that only copies the data (redis-cli
-- --rdb) has no port, and one that still copies cannot. One that was cut off and came back has two lines until its
-- old connection runs into repl-timeout: they have one address, and one of them is silent. Several behind one address
-- (NAT, containers) all speak. So it is the addresses that count, or the lines that speak if they are more.
local function replicas_online(replication)
  local lines, online, speaking, seen = 0, 0, 0, {}
  for line in replication:gmatch('[\r\n]slave%d+:([^\r\n]*)') do
    lines = lines + 1
    local address = line:match('ip=[^,]*,port=%d+') or lines
    if line:find('state=online', 1, true) and not line:find('port=0,', 1, true) then
      if not seen[address] then online, seen[address] = online + 1, true end
      if line:find('lag=[01]$') or line:find('lag=[01],') then speaking = speaking + 1 end -- a replica speaks every second
    end
  end
  if lines == 0 then return num(fact(replication, 'connected_slaves')) end
  return math.max(online, speaking)
end

-- needed is the highest number of replicas that this store has ever been seen with, now included: one that was
-- attached while a run goes on may be promoted before anybody claims. raise_needed writes that down, and never
-- more of the mark: which server it is must be waited for by a claim.
local marked = field(mark_key, {replicas = read('HGET', mark_key, 'replicas')}, 'replicas')
local needed = marked

local function check_master()
  local replication = info('replication')
  must_be_master(replication)
  needed = math.max(marked, replicas_online(replication))
end

local function raise_needed()
  if needed > marked then redis.call('HSET', mark_key, 'replicas', int(needed)) end
end

-- server_facts is what the server says about itself: Server in mark.go. It asks for the expensive part only
-- where the mark does not know this server.
local function server_facts(mark)
  local server, replication = info('server'), info('replication')
  must_be_master(replication)
  if num(fact(server, 'redis_version'):match('^%d+')) < 5 then
    error('LEADERRUN-OLD Redis ' .. fact(server, 'redis_version') .. ' is too old: 5 is needed')
  end
  local run_id, replid = fact(server, 'run_id'), fact(replication, 'master_replid')
  local s = {
    identity = run_id .. ':' .. replid,
    -- uptime_in_seconds is a difference of truncated seconds: the server may have started one later.
    started = now - num(fact(server, 'uptime_in_seconds')) * 1000 + 1000,
    replicas = replicas_online(replication), evicted = 0, forgot = false,
  }
  if mark.identity == s.identity and has_record then return s end

  local stats = info('stats')
  s.evicted = num(fact(stats, 'evicted_keys') or '-1')
  if mark.identity == s.identity then return s end

  local commands = info('commandstats')
  local function called(name) return commands:find('[\r\n]cmdstat_' .. name .. ':calls=[1-9]') ~= nil end
  s.forgot = s.evicted ~= 0
    or fact(replication, 'second_repl_offset') ~= '-1' -- promoted
    or mark.identity:match('^[^:]*') == run_id -- another history, and replid2 may have been forgotten since
    or not commands:find('cmdstat_', 1, true)
    -- RESETSTAT forgets all of the above; before Redis 7 it is not told apart from other uses of CONFIG.
    or called('config|resetstat') or called('config')
    or called('flushall') or called('flushdb') or called('swapdb') or called('debug')
  return s
end

local function read_mark()
  local m = hash(mark_key)
  local function number(name) return field(mark_key, m, name) end
  return {
    identity = m.identity or '', replicas = number('replicas'), longest = number('longest'), till = number('until'), evicted = number('evicted'),
  }
end

-- admit is Mark.Admit: the mark to keep, and for how long nobody may be granted.
local function admit(mark, server, longest)
  local n = {
    identity = mark.identity, till = mark.till, evicted = mark.evicted,
    longest = math.max(mark.longest, longest), replicas = math.max(mark.replicas, server.replicas),
  }
  if mark.identity ~= server.identity then
    local since = now
    if (mark.identity ~= '' or not has_record) and not server.forgot then since = math.min(server.started, now) end
    n.identity, n.evicted, n.till = server.identity, server.evicted, since + n.longest
  elseif not has_record and mark.evicted ~= server.evicted then
    n.evicted, n.till = server.evicted, now + n.longest
  elseif mark.till > now and n.longest > mark.longest then
    n.till = n.till + n.longest - mark.longest
  end
  n.till = math.min(n.till, now + n.longest)
  return n, math.max(n.till - now, 0)
end

local function save_mark(old, new)
  if old.identity ~= new.identity or old.replicas ~= new.replicas or old.longest ~= new.longest or old.till ~= new.till
    or old.evicted ~= new.evicted then
    redis.call('HSET', mark_key, 'identity', new.identity, 'replicas', int(new.replicas),
      'longest', int(new.longest), 'until', int(new.till), 'evicted', int(new.evicted))
  end
end
