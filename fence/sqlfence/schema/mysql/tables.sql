-- The highest token that each resource has seen. Names are bytes: case, accents and blanks at the end count.
CREATE TABLE IF NOT EXISTS leaderrun_fence (
  resource VARBINARY(255) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL,
  checks BIGINT NOT NULL DEFAULT 0 -- every check changes the row: servers that all take writes find conflicts by that
) ENGINE=InnoDB;

-- What is done: a row in the transaction that did it. Old rows may be deleted once nothing runs them again.
CREATE TABLE IF NOT EXISTS leaderrun_done (
  job VARBINARY(255) NOT NULL,
  tick VARBINARY(300) NOT NULL,
  token BIGINT NOT NULL,
  at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  repeats BIGINT NOT NULL DEFAULT 0, -- how often it was to be done again
  PRIMARY KEY (job, tick)
) ENGINE=InnoDB;
