-- leaderrun_fence fails if a run with a higher token has been there (SQLSTATE LR079). Otherwise it keeps the token, and
-- the row stays locked until the end of the transaction. It writes the row even if the token is the same: that is what
-- makes a waiting REPEATABLE READ transaction fail (40001: try again) and not read what was there before.
CREATE OR REPLACE FUNCTION leaderrun_fence(fenced text, mine bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
  highest bigint;
BEGIN
  IF fenced IS NULL OR mine IS NULL THEN
    RAISE EXCEPTION 'leaderrun_fence: the resource or the token is missing' USING ERRCODE = 'LR078';
  END IF;
  IF mine > (extract(epoch FROM clock_timestamp()) + 86400) * 1000 THEN
    RAISE EXCEPTION 'leaderrun_fence: % is not a token: it is more than a day ahead of the clock of this server', mine
      USING ERRCODE = 'LR078';
  END IF;
  INSERT INTO leaderrun_fence AS f (resource, token) VALUES (fenced, mine)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token;
  IF NOT FOUND THEN
    SELECT f.token INTO highest FROM leaderrun_fence AS f WHERE f.resource = fenced;
    RAISE EXCEPTION '%: token % is stale: a run with token % has raised the fence', fenced, mine, highest
      USING ERRCODE = 'LR079';
  END IF;
END $$;

-- leaderrun_once is true if this is the first transaction for the job and tick, and false if it is done already.
CREATE OR REPLACE FUNCTION leaderrun_once(of_job text, of_tick text, mine bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
BEGIN
  IF of_job IS NULL OR of_tick IS NULL OR mine IS NULL THEN
    RAISE EXCEPTION 'leaderrun_once: the job, the tick or the token is missing' USING ERRCODE = 'LR078';
  END IF;
  INSERT INTO leaderrun_done (job, tick, token) VALUES (of_job, of_tick, mine) ON CONFLICT (job, tick) DO NOTHING;
  RETURN FOUND;
END $$;

-- They find the tables beside them, whatever the search path of the caller, and never a temporary one.
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION leaderrun_fence(text, bigint) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION leaderrun_once(text, text, bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
