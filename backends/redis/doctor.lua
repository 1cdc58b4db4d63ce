-- doctor.lua tries each command that the other scripts use, on keys that nobody else knows, and leaves nothing
-- behind. It stands alone: common.lua would fail before it could say why.
--
-- KEYS  1 a string, 2 a hash
-- reply for each command that was refused, its name and the error
local refused = {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    refused[#refused + 1], refused[#refused + 2] = name, reply.err
  end
end
-- Each key expires, should it be that one may be made and not removed.
try('set', KEYS[1], 'doctor', 'PX', 1000)
try('get', KEYS[1])
try('pttl', KEYS[1])
try('hset', KEYS[2], 'field', 'doctor')
try('pexpire', KEYS[2], 1000)
try('hget', KEYS[2], 'field')
try('hgetall', KEYS[2])
try('hdel', KEYS[2], 'field')
try('del', KEYS[1], KEYS[2])
try('publish', KEYS[1], 'doctor')
try('time')
try('info', 'server')
return refused
