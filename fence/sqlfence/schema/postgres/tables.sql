-- CREATE TABLE looks for a table in one schema only. A second fence would not know of the first.
DO $$
DECLARE
  there text;
BEGIN
  SELECT n.nspname INTO there FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid IN (to_regclass('leaderrun_fence'), to_regclass('leaderrun_done')) AND n.nspname <> current_schema();
  IF FOUND THEN
    RAISE EXCEPTION 'the schema % has leaderrun_fence already: in % it would be a second fence', there, current_schema()
      USING ERRCODE = 'LR077', HINT = format('SET search_path = %I', there);
  END IF;
END $$;

-- The highest token that each resource has seen.
CREATE TABLE IF NOT EXISTS leaderrun_fence (
  resource text COLLATE "C" PRIMARY KEY CHECK (resource <> ''),
  token bigint NOT NULL CHECK (token > 0)
);

-- What is done: a row in the transaction that did it. Old rows may be deleted once nothing runs them again.
CREATE TABLE IF NOT EXISTS leaderrun_done (
  job text COLLATE "C" CHECK (job <> ''),
  tick text COLLATE "C" CHECK (tick <> ''),
  token bigint NOT NULL CHECK (token > 0),
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (job, tick)
);
