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
