-- finish.lua records how a run ended and releases its lease: DecideFinish in ../keep.go.
--
-- ARGV  2 job  3 holder  4 host  5 pid  6 user  7 token  8 tick  9 state  10 exit  11 once  12 policy
--       13 max attempts  14 attempt
-- reply nonce, holder, replicas needed, "finished" or "lost", token
local by, token = {id = ARGV[3], host = ARGV[4], pid = num(ARGV[5]), user = ARGV[6]}, num(ARGV[7])
check_master()
local run = run_of(token)
if run and (run.ended or 0) ~= 0 and run.holder.id == by.id then
  -- Answered before. WAIT counts only what this connection wrote, so something is written again.
  redis.call('HSET', record_key, 'token', stored.token)
  raise_needed()
  return {nonce, by.id, int(needed), 'finished', ARGV[7]}
end
local mine = lease and lease.holder == by.id and lease.token == token
local named = not lease and r.token == token and r.holder.id == by.id
if mine or named then restore(ARGV[2], token, occurrence(by, ARGV[8], 11)) end
if not (mine or named) or r.token ~= token then
  return {nonce, by.id, int(needed), 'lost', ARGV[7]}
end
finish_run(by.id, ARGV[9], num(ARGV[10]))
save()
raise_needed()
if mine then release() end
return {nonce, by.id, int(needed), 'finished', ARGV[7]}
