-- The highest token that each resource has seen.
CREATE TABLE IF NOT EXISTS main.leaderrun_fence (
  resource TEXT NOT NULL PRIMARY KEY CHECK (typeof(resource) = 'text' AND resource <> ''),
  token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0)
);

-- What is done: a row in the transaction that did it. Old rows may be deleted once nothing runs them again.
CREATE TABLE IF NOT EXISTS main.leaderrun_done (
  job TEXT NOT NULL CHECK (typeof(job) = 'text' AND job <> ''),
  tick TEXT NOT NULL CHECK (typeof(tick) = 'text' AND tick <> ''),
  token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0),
  at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (job, tick)
);
