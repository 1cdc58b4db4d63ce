-- To insert into leaderrun_fence fails if a run with a higher token has been there. Otherwise the row is replaced.
DROP TRIGGER IF EXISTS main.leaderrun_fence_insert;
CREATE TRIGGER main.leaderrun_fence_insert BEFORE INSERT ON leaderrun_fence
BEGIN
  -- First: the row is not to be deleted below for one that is not inserted then.
  SELECT RAISE(ABORT, 'leaderrun: the resource or the token is missing, or makes no sense')
    WHERE typeof(NEW.resource) <> 'text' OR NEW.resource = '' OR typeof(NEW.token) <> 'integer' OR NEW.token < 1;
  SELECT RAISE(ABORT, 'leaderrun: the token is more than a day ahead of the clock of this host')
    WHERE NEW.token > (strftime('%s', 'now') + 86400) * 1000;
  SELECT RAISE(ABORT, 'leaderrun: the token is stale: a later run has raised the fence')
    WHERE EXISTS (SELECT 1 FROM leaderrun_fence WHERE resource = NEW.resource AND token > NEW.token);
  DELETE FROM leaderrun_fence WHERE resource = NEW.resource;
END;
