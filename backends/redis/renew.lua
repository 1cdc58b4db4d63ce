-- renew.lua extends a lease that is still the grant's: DecideRenew in ../keep.go.
--
-- ARGV  2 job  3 holder  4 host  5 pid  6 user  7 token  8 tick  9 ttl, ms  10 once  11 policy  12 max attempts
--       13 attempt
-- reply nonce, holder, replicas needed, "renewed" or "lost", token, break request as JSON or ""
local by, token, ttl = {id = ARGV[3], host = ARGV[4], pid = num(ARGV[5]), user = ARGV[6]}, num(ARGV[7]), num(ARGV[9])
check_master()
if not lease or lease.holder ~= by.id or lease.token ~= token then
  return {nonce, by.id, int(needed), 'lost', ARGV[7], ''}
end
restore(ARGV[2], token, occurrence(by, ARGV[8], 10))
extend(ttl)
local asked, stop = break_request(), ''
if asked and asked.token == token then stop = r.stop end
save()
raise_needed()
redis.call('PEXPIRE', lease_key, int(ttl))
return {nonce, by.id, int(needed), 'renewed', ARGV[7], stop}
