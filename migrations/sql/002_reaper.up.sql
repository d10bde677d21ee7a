-- Who maintains each table, by its name with the schema. The term grows with every change of leader and fences the
-- last one.
CREATE TABLE "{{schema}}"."leader" (
    name text PRIMARY KEY,
    term bigint NOT NULL,
    holder uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    granted_at timestamptz NOT NULL, -- later than now: the clock was set back, and the lease means nothing
    problem text, -- what kept the last maintenance from serving the table to the end
    CONSTRAINT "leader_time_check" CHECK ( -- one lease that never ends, or cannot be computed, would stop every election
        granted_at BETWEEN '0001-01-01 00:00:00+00'::timestamptz AND '9999-12-31 00:00:00+00'::timestamptz
        AND expires_at BETWEEN '0001-01-01 00:00:00+00'::timestamptz AND granted_at + interval '1 day'
    )
);

COMMENT ON TABLE "{{schema}}"."leader" IS 'txwork leader 1; which reaper maintains each table';

-- Notes that a table has just been maintained by somebody who was not elected, such as txwork reap and the procedures
-- …_maintain, and what was left undone: what looks for tables without maintenance looks here. A lease that lasts stays,
-- and so do the term and the holder: whoever led last may be in the middle of a batch, which its term fences. Nobody is
-- waited for: a row that is locked is that of a reaper at work. The term of a table that nobody was ever elected for is
-- 0. A role from which row-level security hides rows of the table has not maintained all of it, and is refused.
CREATE FUNCTION "{{schema}}"."leader_note"(table_name text, problem text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = split_part($1, '.', 1) AND c.relname = split_part($1, '.', 2) AND row_security_active(c.oid))
    THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('row-level security hides rows of %s from this role: it cannot have maintained all of them', $1),
            HINT = 'Leave this to a role that sees all rows, such as the owner of the tables or one with BYPASSRLS.';
    END IF;
    WITH ended AS MATERIALIZED (
        SELECT l.name
        FROM "{{schema}}"."leader" AS l
        WHERE l.name = $1 AND (l.expires_at <= clock_timestamp() OR l.granted_at > clock_timestamp())
        FOR NO KEY UPDATE SKIP LOCKED
    ), noted AS (
        UPDATE "{{schema}}"."leader" AS l
        SET expires_at = clock_timestamp(), granted_at = clock_timestamp(), problem = nullif($2, '')
        FROM ended AS e
        WHERE l.name = e.name
    )
    INSERT INTO "{{schema}}"."leader" (name, term, holder, expires_at, granted_at, problem)
    VALUES ($1, 0, '00000000-0000-0000-0000-000000000000', clock_timestamp(), clock_timestamp(), nullif($2, ''))
    ON CONFLICT (name) DO NOTHING;
END
$txwork$;

REVOKE ALL ON FUNCTION "{{schema}}"."leader_note"(text, text) FROM PUBLIC;
