-- abandon.lua takes a claim back whose run never started: DecideAbandon in ../keep.go.
--
-- ARGV  2 job  3 holder  4 host  5 pid  6 user  7 tick  8 once  9 policy  10 max attempts  11 attempt
-- reply nonce, holder, replicas needed, "abandoned"
local by = {id = ARGV[3], host = ARGV[4], pid = num(ARGV[5]), user = ARGV[6]}
check_master()
local held = lease and lease.holder == by.id
local named = not lease and r.token ~= 0 and r.holder.id == by.id and r.released ~= r.token
if held then restore(ARGV[2], lease.token, occurrence(by, ARGV[7], 8)) end
if held or named then finish_run(by.id, 'open', 0) end
if not find('refused', function(id) return id == by.id end) then
  r.job = ARGV[2]
  push('refused', by.id, 20)
end
save()
raise_needed()
redis.call('HSET', record_key, 'job', r.job) -- asked again, it still writes: WAIT counts only what this connection wrote
if held then release() end
return {nonce, by.id, int(needed), 'abandoned'}
