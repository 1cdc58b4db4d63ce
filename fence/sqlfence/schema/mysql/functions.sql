-- Where binary logging is on, functions are made by a user with SUPER, or with log_bin_trust_function_creators = 1.
-- MariaDB replaces functions, and keeps who may execute them. MySQL leaves those that are there (before 8.0.29 it fails
-- where one is): DROP FUNCTION first to have them anew, and GRANT EXECUTE again after it.
DELIMITER //

-- leaderrun_fence fails if a run with a higher token has been there (SQLSTATE 45000). Otherwise it keeps the token, and
-- the row stays locked until the end of the transaction.
CREATE /*M! OR REPLACE */ FUNCTION /*!80029 IF NOT EXISTS */ leaderrun_fence(
  fenced VARBINARY(1000), mine BIGINT) RETURNS BIGINT
DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE highest BIGINT;
  DECLARE why VARCHAR(128) CHARACTER SET utf8mb4;
  IF fenced IS NULL OR mine IS NULL OR LENGTH(fenced) NOT BETWEEN 1 AND 255 OR mine < 1 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leaderrun_fence: the resource or the token is missing, or makes no sense';
  END IF;
  IF mine > (UNIX_TIMESTAMP() + 86400) * 1000 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leaderrun_fence: the token is more than a day ahead of the clock of this server';
  END IF;
  INSERT INTO leaderrun_fence (resource, token) VALUES (fenced, mine)
    ON DUPLICATE KEY UPDATE checks = checks + 1, token = GREATEST(token, mine);
  SELECT token INTO highest FROM leaderrun_fence WHERE resource = fenced FOR UPDATE;
  IF highest IS NULL OR highest > mine THEN
    SET why = CONCAT(LEFT(CONVERT(fenced USING utf8mb4), 30), ': token ', mine, ' is stale: a run with token ', highest,
      ' has raised the fence');
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = why;
  END IF;
  RETURN mine;
END//

-- leaderrun_once is 1 if this is the first transaction for the job and tick, and 0 if it is done already.
CREATE /*M! OR REPLACE */ FUNCTION /*!80029 IF NOT EXISTS */ leaderrun_once(
  of_job VARBINARY(1000), of_tick VARBINARY(1000), mine BIGINT) RETURNS BOOLEAN
DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE before_this BIGINT;
  IF of_job IS NULL OR of_tick IS NULL OR mine IS NULL OR mine < 1
    OR LENGTH(of_job) NOT BETWEEN 1 AND 255 OR LENGTH(of_tick) NOT BETWEEN 1 AND 300 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leaderrun_once: the job, the tick or the token is missing, or makes no sense';
  END IF;
  INSERT INTO leaderrun_done (job, tick, token) VALUES (of_job, of_tick, mine)
    ON DUPLICATE KEY UPDATE repeats = repeats + 1;
  SELECT repeats INTO before_this FROM leaderrun_done WHERE job = of_job AND tick = of_tick FOR UPDATE;
  RETURN before_this = 0;
END//

DELIMITER ;
