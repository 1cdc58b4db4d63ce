-- claim.lua answers a claim: Decide in ../decide.go, step by step and in its order.
--
-- ARGV  2 job            8 floor           14 fingerprint of the claim's schedule
--       3 holder         9 tick, or 0      15 text of that schedule
--       4 host          10 once-key or ""  16 fingerprint of the schedule shown to be out of use
--       5 pid           11 on_lost         17 the instant that shows it
--       6 user          12 max_attempts    18 longest TTL of this store, ms
--       7 ttl, ms       13 start deadline, ms; -1: none
-- reply nonce, holder, replicas needed, the answer as JSON
local c = {
  job = ARGV[2], holder = {id = ARGV[3], host = ARGV[4], pid = num(ARGV[5]), user = ARGV[6]}, ttl = num(ARGV[7]),
  floor = num(ARGV[8]), tick = num(ARGV[9]), once = ARGV[10], on_lost = ARGV[11], max_attempts = num(ARGV[12]),
  deadline = num(ARGV[13]), schedule = {fingerprint = ARGV[14], text = ARGV[15]},
  unclaimed = {fingerprint = ARGV[16], instant = num(ARGV[17])},
}
local changed, lost, notes = false, {}, {}
local ahead_max, unclaimed_grace, kept_schedules = 60000, 60000, 8

local function refuse(answer)
  answer.token = r.token
  if (answer.tick or 0) == 0 then answer.tick = r.tick.tick end
  return answer
end

local function ahead(tick) return tick * 1000 > now + ahead_max end
local function too_late(tick) return c.deadline >= 0 and now - tick * 1000 > c.deadline end
local function unfinished(state) return state == 'claimed' or state == 'lost' or state == 'stopped' end

local function claimed(attempt)
  return {
    tick = c.tick, key = c.once, state = 'claimed', claimant = c.holder,
    policy = c.on_lost, attempt = attempt, max_attempts = c.max_attempts,
  }
end

local function lose_run()
  local run = run_of(r.token)
  if run and run.state == 'claimed' then
    edit('runs')
    run.state, changed = 'lost', true
  end
end

local function grant(tick, attempt)
  lose_run()
  r.job, r.holder = c.job, c.holder
  r.token = math.max(r.token + 1, now, c.floor + 1)
  r.granted, r.stop = now, nil
  extend(c.ttl)
  note({
    token = r.token, holder = c.holder, tick = tick, key = c.once,
    attempt = attempt, started = now, state = 'claimed', exit = 0,
  })
  changed = true
  return {verdict = 'granted', token = r.token, tick = tick, attempt = attempt}
end

-- start: whether the policy lets a recorded tick or key start (again); the attempt, and whether it may.
local function start(o)
  local attempt = o.attempt or 0
  if o.state == 'open' then return attempt + 1, true end
  if not unfinished(o.state) then return 0, false end
  if o.state == 'claimed' and o.claimant.id == c.holder.id then return attempt, true end
  return attempt + 1, o.policy == 'rerun' and c.on_lost == 'rerun' and attempt < (o.max_attempts or 0)
end

local function ended(o)
  local first = o.state == 'claimed'
  if first then
    o.state, changed = 'lost', true
    lose_run()
  end
  return refuse({verdict = o.state, holder = o.claimant, tick = o.tick, first = first})
end

local function by_key()
  local o, i = find('once', function(x) return x.key == c.once end)
  if not o then
    push('once', claimed(1), kept_keys)
    return grant(0, 1)
  end
  local attempt, ok = start(o)
  if not ok then
    edit('once')
    return ended(o)
  end
  table.remove(edit('once'), i)
  push('once', claimed(attempt), kept_keys)
  return grant(0, attempt)
end

local function earlier()
  for _, run in ipairs(list('runs')) do
    if run.tick == c.tick and run.state ~= 'claimed' and run.state ~= 'open' then
      return refuse({verdict = run.state, holder = run.holder, tick = run.tick})
    end
  end
  return refuse({verdict = 'earlier'})
end

local function adopt()
  local mine = c.schedule.fingerprint
  if mine == '' or mine == r.schedule.fingerprint then return end
  local former = edit('former')
  for i = #former, 1, -1 do
    if former[i].fingerprint == mine then table.remove(former, i) end
  end
  if r.schedule.fingerprint ~= '' then push('former', r.schedule, kept_schedules) end
  r.schedule = {fingerprint = mine, text = c.schedule.text, by = c.holder, at = now}
end

local function late()
  local first = c.tick > r.tick.tick or r.tick.state == 'open'
  if first then
    adopt()
    r.job, r.tick = c.job, claimed(0)
    r.tick.state, changed = 'missed', true
    note({holder = c.holder, tick = c.tick, state = 'missed', exit = 0})
  end
  return refuse({verdict = 'late', tick = c.tick, first = first})
end

-- adopt_schedule refuses a claim whose schedule was superseded, unless it proves that the recorded one is out of use.
local function adopt_schedule()
  local mine, recorded = c.schedule.fingerprint, r.schedule.fingerprint
  if mine == '' or recorded == '' or mine == recorded then return nil end
  if not find('former', function(s) return s.fingerprint == mine end) then return nil end
  local held = r.ended
  if r.released ~= r.token then held = math.max(held, r.till) end
  local u = c.unclaimed
  local instant = u.instant * 1000
  if u.fingerprint == recorded and u.instant > r.tick.tick and instant > held and instant + unclaimed_grace <= now then
    notes[1] = 'an older schedule takes over: nobody uses the recorded one any more (' .. r.schedule.text .. ')'
    return nil
  end
  return refuse({verdict = 'outdated', holder = r.schedule.by, text = r.schedule.text, at = r.schedule.at, lease = held})
end

local function supersede()
  if r.tick.state == 'claimed' then
    local o = {}
    for k, v in pairs(r.tick) do o[k] = v end
    o.state = 'lost'
    lost[#lost + 1] = o
    lose_run()
  end
  if r.passed > r.tick.tick and r.passed < c.tick then
    local nobody = {id = '', host = '', pid = 0, user = ''}
    lost[#lost + 1] = {tick = r.passed, state = 'missed', claimant = nobody}
    note({holder = nobody, tick = r.passed, state = 'missed', exit = 0})
    changed = true
  end
  if r.passed ~= 0 and r.passed <= c.tick then r.passed, changed = 0, true end
end

local function by_tick()
  local last = r.tick
  if ahead(last.tick) then return refuse({verdict = 'future-recorded', holder = last.claimant}) end
  if c.tick < last.tick then return earlier() end
  local attempt, ok = start(last)
  if c.tick == last.tick then
    if not ok then return ended(last) end
    if too_late(c.tick) then return late() end
    r.tick = claimed(attempt)
    return grant(c.tick, attempt)
  end
  local outdated = adopt_schedule()
  if outdated then return outdated end
  if ok and unfinished(last.state) and not too_late(last.tick) then
    r.tick = claimed(attempt)
    r.tick.tick = last.tick
    return grant(last.tick, attempt)
  end
  supersede()
  if too_late(c.tick) then return late() end
  adopt()
  r.tick = claimed(1)
  return grant(c.tick, 1)
end

local function again()
  restore(c.job, lease.token, claimed(1))
  extend(c.ttl)
  changed = true
  local answer = {verdict = 'granted', token = r.token, tick = c.tick, attempt = 1}
  local run = run_of(r.token)
  if run then answer.tick, answer.attempt = run.tick or 0, run.attempt or 0 end
  return answer
end

local function held()
  if c.tick > math.max(r.tick.tick, r.passed) then r.job, r.passed, changed = c.job, c.tick, true end
  local by = r.holder
  if by.id ~= lease.holder then by = {id = lease.holder, host = '', pid = 0, user = ''} end
  return refuse({verdict = 'held', holder = by, wait = lease.left, seen = {token = r.token, beat = r.beat}})
end

local function has_ended(id)
  for _, refused in ipairs(list('refused')) do
    if refused == id then return true end
  end
  return find('runs', function(run) return run.holder.id == id and (run.ended or 0) ~= 0 end) ~= nil
end

local function holder_may_live()
  if r.released == r.token then return 0 end
  if r.till > now + r.ttl then r.till, changed = now + r.ttl, true end -- the clock went back
  return r.till - now
end

local function decide(quarantine)
  if lease and lease.holder == c.holder.id then return again() end
  if c.tick ~= 0 and ahead(c.tick) then return refuse({verdict = 'future'}) end
  if lease then return held() end
  if has_ended(c.holder.id) then return refuse({verdict = 'abandoned'}) end
  if quarantine > 0 then return refuse({verdict = 'quarantined', wait = quarantine}) end
  local wait = holder_may_live()
  if wait > 0 then
    return refuse({verdict = 'vanished', holder = r.holder, wait = wait, seen = {token = r.token, beat = r.beat}})
  end
  if c.tick ~= 0 then return by_tick() end
  if c.once ~= '' then return by_key() end
  return grant(0, 1)
end

local old_mark = read_mark()
local mark, quarantine = admit(old_mark, server_facts(old_mark), num(ARGV[18]))
local answer = decide(quarantine)
if #lost > 0 then answer.lost = lost end
if #notes > 0 then answer.notes = notes end
local text = cjson.encode(answer)
save_mark(old_mark, mark)
if changed then save() end
if answer.verdict == 'granted' then put_lease(c.holder.id, answer.token, c.ttl) end
return {nonce, c.holder.id, int(mark.replicas), text}
