-- order.lua writes what an operator's order makes of a record: DecideOrder in ../order.go, which the client has taken
-- on what inspect.lua showed. Where record, lease or the mark's identity are not that any more, nothing is written.
--
-- ARGV  2 job  3 who orders  4 holder of the lease or ""  5 its token  6 identity in the mark  7 1: the lease is removed
--       8 how many fields the record had; then each with its value; then each field that changes, with its new value
--         or ""
-- reply nonce, who orders, replicas needed, "ordered" or "changed"
check_master()
local l = lease or {holder = '', token = 0}
local same = l.holder == ARGV[4] and l.token == num(ARGV[5]) and (redis.call('HGET', mark_key, 'identity') or '') == ARGV[6]
local fields, first = 0, 9 + 2 * num(ARGV[8])
for _ in pairs(stored) do fields = fields + 1 end
same = same and fields == num(ARGV[8])
for i = 9, first - 1, 2 do same = same and stored[ARGV[i]] == ARGV[i + 1] end
if not same then return {nonce, ARGV[3], int(needed), 'changed'} end

for i = first, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', record_key, ARGV[i])
  else
    redis.call('HSET', record_key, ARGV[i], ARGV[i + 1])
  end
end
raise_needed()
redis.call('HSET', record_key, 'job', ARGV[2]) -- asked again, it still writes: WAIT counts only what this connection wrote
if ARGV[7] == '1' then release() else tell() end
return {nonce, ARGV[3], int(needed), 'ordered'}
