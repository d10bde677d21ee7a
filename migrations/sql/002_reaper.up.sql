-- Who maintains each table, by its name with the schema. The term grows with every change of leader and fences the
-- last one.
CREATE TABLE "{{schema}}"."leader" (
    name text PRIMARY KEY,
    term bigint NOT NULL,
    holder uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    granted_at timestamptz NOT NULL -- later than now: the clock was set back, and the lease means nothing
);

COMMENT ON TABLE "{{schema}}"."leader" IS 'txwork leader election';

-- Notes that a table has just been maintained by somebody who was not elected, such as txwork reap and the procedures
-- …_maintain: what looks for tables without maintenance looks here. A lease that lasts stays, and so do the term and the
-- holder: whoever led last may be in the middle of a batch, which its term fences. Nobody is waited for: a row that is
-- locked is that of a reaper at work. The term of a table that nobody was ever elected for is 0.
CREATE FUNCTION "{{schema}}"."leader_note"(table_name text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $txwork$
    WITH ended AS MATERIALIZED (
        SELECT l.name
        FROM "{{schema}}"."leader" AS l
        WHERE l.name = $1 AND (l.expires_at <= clock_timestamp() OR l.granted_at > clock_timestamp())
        FOR NO KEY UPDATE SKIP LOCKED
    ), noted AS (
        UPDATE "{{schema}}"."leader" AS l
        SET expires_at = clock_timestamp(), granted_at = clock_timestamp()
        FROM ended AS e
        WHERE l.name = e.name
    )
    INSERT INTO "{{schema}}"."leader" (name, term, holder, expires_at, granted_at)
    VALUES ($1, 0, '00000000-0000-0000-0000-000000000000', clock_timestamp(), clock_timestamp())
    ON CONFLICT (name) DO NOTHING
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."leader_note"(text) FROM PUBLIC;
