-- inspect.lua shows what is kept about a job and changes nothing.
--
-- ARGV  2 longest TTL of this store, ms
-- reply nonce, replicas needed, now, holder of the lease or "", its token, its time left, how long the next claim
--       must still wait although nobody has the lease, the record as field, value, …, the identity in the mark, for how
--       long a job that is free is in quarantine
local mark = read_mark()
local next_mark, quarantine = admit(mark, server_facts(mark), num(ARGV[2]))
local wait = quarantine
if r.released ~= r.token then wait = math.max(wait, math.min(r.till, now + r.ttl) - now) end
if lease then wait = 0 end
local l = lease or {holder = '', token = 0, left = 0}
return {nonce, int(next_mark.replicas), int(now), l.holder, int(l.token), int(l.left), int(wait), redis.call('HGETALL', record_key),
  mark.identity, int(quarantine)}
