-- renew.lua extends a lease and what the record says of that, whatever else the record says: an upgrade ends no run. Where
-- the record is not of the lease's run, or somebody asks the holder to stop, it writes nothing, and what there is is decided on.
--
-- ARGV  2 lease  3 its token  4 its TTL  5 the request to stop that is known, or ""
-- reply state, or: nonce, "done", replicas needed, now, end of the lease, beat
if read('GET', lease_key) ~= ARGV[2] or text(record_key, 'token') ~= ARGV[3] or text(record_key, 'break') ~= ARGV[5] then
  return state()
end
local till, beat = now + tonumber(ARGV[4]), number(record_key, 'beat') + 1
redis.call('HSET', record_key, 'until', int(till), 'ttl', ARGV[4], 'beat', int(beat))
raise('replicas', needed)
redis.call('PEXPIRE', lease_key, ARGV[4])
return {nonce, 'done', int(needed), int(now), int(till), int(beat)}
