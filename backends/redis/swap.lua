-- swap.lua writes record and lease, or the mark, if everything is as it was read; if not, it writes nothing.
--
-- ARGV  as it was read:
--       2 now   3 how long that may be ago, ms   4 identity   5 epoch of the mark   6 lease, or ""
--       7 version of the record, or "-" and a form: any will do up to that form   8 its beat, or "-"
--       as it is to be:
--       9 the mark's end of the quarantine, or "": the mark stays   10 its number of evicted keys   11 the longest TTL
--      12 job   13 token   14 lease, or "": it stays   15 its TTL   16 the least beat
--      17 "1": the lease goes   18 "1": those who watch are told   19 whose claims are refused from now on, or ""
--      20 how many such names are kept
--      then each field of the record that changes, with its value or ""
-- reply state, or: nonce, "done", replicas needed, now, end of the lease, beat
number(mark_key, 'longest') -- what cannot be read ends the script before anything is written
local age, epoch = now - tonumber(ARGV[2]), ARGV[5]
local same = age >= 0 and age <= tonumber(ARGV[3]) and identity == ARGV[4] and text(mark_key, 'epoch') == epoch

if ARGV[9] ~= '' then
  if same then
    redis.call('HSET', mark_key, 'identity', identity, 'until', ARGV[9], 'evicted', ARGV[10], 'epoch', nonce)
    raise('replicas', needed)
    raise('longest', tonumber(ARGV[11]))
  end
  return state()
end

local lease, stored = read('GET', lease_key), number(record_key, 'token')
local token, put, ttl = tonumber(ARGV[13]), ARGV[14], tonumber(ARGV[15])
local form = tonumber(ARGV[7]:match('^%-(%d+)$'))
same = same and (lease or '') == ARGV[6] and (form and number(record_key, 'form') <= form or text(record_key, 'version') == ARGV[7])
  and (ARGV[8] == '-' or text(record_key, 'beat') == ARGV[8])
if put ~= '' and put ~= lease then
  -- A grant: by a token above all before, on a server whose mark it is and that is not in quarantine, and if nothing is known
  -- of the job then only if nothing was evicted since.
  same = same and not lease and token > stored and epoch ~= '' and text(mark_key, 'identity') == identity
    and number(mark_key, 'until') <= now and (stored ~= 0 or evicted() == number(mark_key, 'evicted'))
end
if not same or token < stored then return state() end -- below it where another was granted meanwhile

local set, gone, till, beat = {'job', ARGV[12], 'version', nonce}, {}, 0, 0
for i = 21, #ARGV, 2 do
  local to = ARGV[i + 1] == '' and gone or set
  to[#to + 1] = ARGV[i]
  if to == set then to[#to + 1] = ARGV[i + 1] end
end
if put ~= '' then
  till, beat = now + ttl, math.max(number(record_key, 'beat') + 1, tonumber(ARGV[16]))
  for _, x in ipairs({'until', int(till), 'ttl', int(ttl), 'beat', int(beat)}) do set[#set + 1] = x end
end
if ARGV[19] ~= '' then -- of many who take their claims back at once each adds one
  local refused = text(record_key, 'refused')
  refused = cjson.decode(refused == '' and '[]' or refused)
  table.insert(refused, 1, ARGV[19])
  refused[tonumber(ARGV[20]) + 1] = nil
  set[#set + 1], set[#set + 2] = 'refused', cjson.encode(refused)
end
redis.call('HSET', record_key, unpack(set)) -- always something: WAIT counts only what this connection wrote
if #gone > 0 then redis.call('HDEL', record_key, unpack(gone)) end
raise('replicas', needed)
raise('longest', tonumber(ARGV[11]))
if put ~= '' then redis.call('SET', lease_key, put, 'PX', int(ttl)) end
if ARGV[17] == '1' then redis.call('DEL', lease_key) end
if ARGV[18] == '1' then redis.pcall('PUBLISH', lease_key, int(token)) end -- without the right to it they wake by their timers
return {nonce, 'done', int(needed), int(now), int(till), int(beat)}
