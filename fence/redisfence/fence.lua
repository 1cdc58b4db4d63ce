-- One step: is the run still the latest, and then what it wants to do.
-- KEYS[1]: the fence. ARGV[1]: the token of the run. ARGV[2], what it wants, and what follows:
--   raise    nothing more
--   command  ARGV[3] and on: the command. KEYS[2] and on: those of its keys that are known
--   script   ARGV[3]: the text. KEYS[2] and on, ARGV[4] and on: its own
--   once     KEYS[2]: what has happened. ARGV[3]: what is to happen once, ARGV[4]: the text, and its own behind these
-- An error is ours, and nothing of what it wants was done. What fails of the caller's is an answer: {'failed', text}.
local fence, token, wants = KEYS[1], ARGV[1], ARGV[2]
local remembered = 1000 -- what happened once, the latest; as the package comment says

-- Tokens are text here: Lua's numbers are exact up to 2^53 only.
local function istoken(text)
  return #text <= 19 and string.find(text, '^[1-9][0-9]*$')
end

local function below(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function from(first, list)
  local rest = {}
  for i = first, #list do rest[i - first + 1] = list[i] end
  return rest
end

-- refused is what to answer where our own key could not be read or written.
local function refused(key, reply)
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return {'foreign', key} end
  return reply
end

-- failure is the text of an error in what the caller wants; nil: it went well.
local function failure(ok, reply)
  local text
  if type(reply) == 'table' and reply.err then
    text = tostring(reply.err)
  elseif not ok then
    text = tostring(reply)
  end
  if text and not string.find(text, '^%u+ ') then text = 'ERR ' .. text end
  return text
end

local highest = redis.pcall('GET', fence)
if type(highest) == 'table' then return refused(fence, highest) end
if highest and not istoken(highest) then return {'foreign', fence} end
if highest and below(token, highest) then return {'stale', highest} end
if highest ~= token then redis.call('SET', fence, token) end

if wants == 'raise' then return {'done'} end
if wants == 'command' then
  local reply = redis.pcall(unpack(ARGV, 3))
  local text = failure(true, reply)
  if text then return {'failed', text} end
  return {'done', reply}
end

local once = wants == 'once'
local first = once and 4 or 3
-- A chunk of its own, on its first line: the line numbers in an error are those of the text.
local effect, why = loadstring('local KEYS, ARGV, redis, server = ... ' .. ARGV[first], '@user_script')
if not effect then return {'unreadable', why} end
local keys, args = from(once and 3 or 2, KEYS), from(first + 1, ARGV)
local server = rawget(_G, 'server') -- as Valkey also calls redis

if not once then
  local ok, reply = pcall(effect, keys, args, redis, server)
  local text = failure(ok, reply)
  if text then return {'failed', text} end
  return {'done', reply}
end

-- What happens once stays in its database: from another one its mark could not be taken back.
local function staying(call, refuse)
  return function(...)
    local name = string.upper(tostring((...)))
    if name == 'SELECT' or name == 'SWAPDB' then
      return refuse({err = 'ERR ' .. name .. ' is not allowed in what happens once'})
    end
    return call(...)
  end
end
local settled = setmetatable({
  call = staying(redis.call, error),
  pcall = staying(redis.pcall, function(reply) return reply end),
}, {__index = redis})

-- The mark comes first and is taken back: whoever may not write it, or not remove it, does not begin.
local happened, trigger = KEYS[2], ARGV[3]
local removable = redis.pcall('ZREM', happened, '')
if type(removable) == 'table' then return refused(happened, removable) end
local trimmed = redis.pcall('ZREMRANGEBYRANK', happened, 0, -remembered - 1)
if type(trimmed) == 'table' then return refused(happened, trimmed) end
local marked = redis.pcall('ZADD', happened, 'NX', token, trigger)
if type(marked) == 'table' then return refused(happened, marked) end
if marked == 0 then return {'before'} end
local ok, reply = pcall(effect, keys, args, settled, server and settled)
local text = failure(ok, reply)
if not text then return {'done', reply} end
redis.pcall('ZREM', happened, trigger)
return {'failed', text}
