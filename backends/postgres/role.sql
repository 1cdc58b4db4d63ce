CREATE ROLE leaderrun LOGIN PASSWORD 'PASSWORD';
CREATE TABLE IF NOT EXISTS "leaderrun" (job text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, record text, holder text, token bigint, until timestamptz, beat bigint NOT NULL DEFAULT 0, updated timestamptz NOT NULL DEFAULT clock_timestamp()) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE ON "leaderrun" TO "leaderrun";
