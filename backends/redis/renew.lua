-- renew.lua extends a lease that is still the grant's: DecideRenew in ../keep.go.
--
-- ARGV  2 job  3 holder  4 host  5 pid  6 user  7 token  8 tick  9 ttl, ms
-- reply nonce, holder, replicas needed, "renewed" or "lost", token, break request as JSON or ""
local by, token, ttl = {id = ARGV[3], host = ARGV[4], pid = num(ARGV[5]), user = ARGV[6]}, num(ARGV[7]), num(ARGV[9])
if not lease or lease.holder ~= by.id or lease.token ~= token then
  must_be_master(info('replication')) -- on a replica this says nothing
  return {nonce, by.id, needed(), 'lost', ARGV[7], ''}
end
local need = needed()
restore(ARGV[2], token, by, num(ARGV[8]))
extend(ttl)
local stop = r.stop or ''
if stop ~= '' and cjson.decode(stop).token ~= token then stop = '' end
save()
redis.call('PEXPIRE', lease_key, int(ttl))
return {nonce, by.id, need, 'renewed', ARGV[7], stop}
