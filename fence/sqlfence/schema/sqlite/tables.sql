-- The highest token that each resource has seen.
CREATE TABLE IF NOT EXISTS leaderrun_fence (
  resource TEXT NOT NULL PRIMARY KEY CHECK (resource <> ''),
  token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0)
);

-- What is done: a row in the transaction that did it. Old rows may be deleted once nothing runs them again.
CREATE TABLE IF NOT EXISTS leaderrun_done (
  job TEXT NOT NULL CHECK (job <> ''),
  tick TEXT NOT NULL CHECK (tick <> ''),
  token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0),
  at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (job, tick)
);
