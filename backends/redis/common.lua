-- common.lua is put in front of read.lua, swap.lua and renew.lua. It reads what there is and decides nothing: that is done
-- in Go, by the functions of package backends. A script reads and compares everything before its first write, so that one
-- that fails has changed nothing.
--
-- KEYS  1 lease   string "holder|token" with an expiry
--       2 record  hash without one; a list is JSON in one field
--       3 mark    hash: which server this is (one per store; in Cluster one per job)
-- ARGV  1 nonce of the request, echoed as the first element of the reply: a reply that belongs to another request is
--         recognised (CVE-2025-29923). What is written gets it as its version: it never comes again, as a counter would
--         in a store that was set back
--
-- Times are milliseconds of the server's clock.
local lease_key, record_key, mark_key, nonce = KEYS[1], KEYS[2], KEYS[3], ARGV[1]

local function int(n) return string.format('%.0f', n) end

local function broken(key, what) error('LEADERRUN-BROKEN key ' .. key .. ': ' .. what) end

-- read is what a key holds.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if reply.err:find('WRONGTYPE', 1, true) then broken(key, 'it is of another type') end
  return redis.call(command, key, ...) -- fails in this server's own words
end

local function text(key, field) return read('HGET', key, field) or '' end

local function number(key, field)
  local s = text(key, field)
  if s ~= '' and not s:find('^%-?%d+$') then
    broken(key, 'field ' .. field .. ' is no number that leaderrun writes: ' .. s:sub(1, 40):gsub('[%c]', '?'))
  end
  return tonumber(s) or 0
end

-- ask calls what a user, or a server that only resembles Redis, may lack in scripts: the error names it.
local function ask(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then error(table.concat({...}, ' ') .. ': ' .. reply.err) end
  return reply
end

local clock = ask('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function fact(info, name) return info:match('[\r\n]' .. name .. ':([^\r\n]*)') end

-- needed_fact is one that every Redis and Valkey gives.
local function needed_fact(info, name) return fact(info, name) or error('LEADERRUN-LACKS ' .. name) end

-- What a replica shows may be old.
local replication = ask('INFO', 'replication')
if needed_fact(replication, 'role') ~= 'master' then error('LEADERRUN-REPLICA this server is not the master') end

-- online counts the replicas that can acknowledge. A client that only copies the data (redis-cli --rdb) has no port, and
-- one that still copies cannot. One that was cut off and came back has two lines until its old connection runs into
-- repl-timeout: they have one address, and one of them is silent. Several behind one address (NAT, containers) all speak.
-- So it is the addresses that count, or the lines that speak if they are more.
local function online()
  local lines, addresses, speaking, seen = 0, 0, 0, {}
  for line in replication:gmatch('[\r\n]slave%d+:([^\r\n]*)') do
    lines = lines + 1
    local address = line:match('ip=[^,]*,port=%d+') or lines
    if line:find('state=online', 1, true) and not line:find('port=0,', 1, true) then
      if not seen[address] then addresses, seen[address] = addresses + 1, true end
      if line:find('lag=[01]$') or line:find('lag=[01],') then speaking = speaking + 1 end -- a replica speaks every second
    end
  end
  if lines == 0 then return tonumber(fact(replication, 'connected_slaves')) or 0 end
  return math.max(addresses, speaking)
end

-- needed is the highest number of replicas that this store has ever been seen with, now included: one that was attached
-- while a run goes on may be promoted before anybody claims.
local needed = math.max(number(mark_key, 'replicas'), online())

-- raise writes a number into the mark if it is higher than what is there.
local function raise(field, n)
  if n > number(mark_key, field) then redis.call('HSET', mark_key, field, int(n)) end
end

-- identity says which server this is, in which replication history.
local server = ask('INFO', 'server')
local identity = needed_fact(server, 'run_id') .. ':' .. needed_fact(replication, 'master_replid')

-- evicted is how many keys the server has evicted since it started; -1: it does not say.
local function evicted() return tonumber(fact(ask('INFO', 'stats'), 'evicted_keys') or '-1') end

-- state is the reply that shows what there is: nonce, "state", replicas needed, now, lease and its time left, record, mark,
-- and what the server says of itself, as much as Mark.Admit asks for.
local function state()
  local lease = read('GET', lease_key)
  local known = text(mark_key, 'identity') == identity
  return {
    nonce, 'state', int(needed), int(now), lease or '', int(lease and redis.call('PTTL', lease_key) or -2),
    read('HGETALL', record_key), read('HGETALL', mark_key),
    identity, needed_fact(server, 'redis_version'), needed_fact(server, 'uptime_in_seconds'),
    known and number(record_key, 'token') ~= 0 and '0' or int(evicted()),
    fact(replication, 'second_repl_offset') or '', known and '' or ask('INFO', 'commandstats'),
  }
end
