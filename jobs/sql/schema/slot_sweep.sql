-- Reconciles the slots with the jobs and deletes old starts, a bounded number at a time, and returns how many of both
-- it removed.
--
-- When a queue gets a limit, it may have running jobs without a slot. This gives them slots, for as long after the
-- change as workers that do not know of it yet may still claim. Jobs that are being settled are skipped.
--
-- Starts that no rate asks for any more are deleted, and those more than a day ahead, which a clock that was set wrong
-- has left.
--
-- A slot without its job is freed: the job was changed while the triggers were bypassed. A slot is freed only when it
-- is older than any statement that might still see the job's previous state.
CREATE FUNCTION {{.Function "slot_sweep"}}(max_rows integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule record;
    given integer;
    old integer := 0;
BEGIN
    {{.SeesSlots}}
    {{.Bounded "$1" "max_rows"}}
    FOR rule IN
        SELECT q.name, q.changed_at FROM {{.Queue}} AS q WHERE q.adopt ORDER BY q.name FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        WITH running AS (
            SELECT r.id
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL
              AND NOT r.waiting
              AND r.queue = rule.name
              AND r.status = 1
              AND NOT EXISTS (SELECT FROM {{.Slot}} AS s WHERE s.job_id = r.id)
            LIMIT $1
            FOR NO KEY UPDATE OF r SKIP LOCKED
        ), marked AS (
            UPDATE {{.Table}} AS t SET slot = true FROM running AS r WHERE t.id = r.id RETURNING t.id
        )
        INSERT INTO {{.Slot}} (job_id, queue) SELECT m.id, rule.name FROM marked AS m ON CONFLICT DO NOTHING;

        IF rule.changed_at < clock_timestamp() - interval '10 seconds' AND NOT FOUND THEN
            UPDATE {{.Queue}} AS q SET adopt = false WHERE q.name = rule.name;
        END IF;
    END LOOP;

    FOR rule IN
        WITH RECURSIVE named AS (
            (SELECT s.queue AS name FROM {{.Start}} AS s ORDER BY s.queue LIMIT 1)
            UNION ALL
            SELECT (SELECT s.queue FROM {{.Start}} AS s WHERE s.queue > n.name ORDER BY s.queue LIMIT 1)
            FROM named AS n
            WHERE n.name IS NOT NULL
        )
        SELECT n.name, CASE WHEN q.rate IS NULL THEN 9223372036854775807 ELSE {{.SpanOld "q"}} END AS old
        FROM named AS n
        LEFT JOIN {{.Queue}} AS q ON q.name = n.name
        WHERE n.name IS NOT NULL
    LOOP
        DELETE FROM {{.Start}} AS d
        WHERE d.ctid = ANY (ARRAY(
            SELECT s.ctid
            FROM {{.Start}} AS s
            WHERE s.queue = rule.name AND s.at < rule.old
            LIMIT $1
            FOR UPDATE SKIP LOCKED) || ARRAY(
            SELECT s.ctid
            FROM {{.Start}} AS s
            WHERE s.queue = rule.name
              AND s.at > extract(epoch FROM clock_timestamp() + interval '1 day')::bigint * 1000000
            LIMIT $1
            FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS given = ROW_COUNT;
        old := old + given;
    END LOOP;

    DELETE FROM {{.Slot}} AS d
    WHERE d.ctid = ANY (ARRAY(
        SELECT s.ctid
        FROM {{.Slot}} AS s
        WHERE s.taken_at < clock_timestamp() - interval '10 seconds'
          AND NOT EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = s.job_id AND t.status = 1 AND t.slot)
        LIMIT $1
        FOR UPDATE OF s SKIP LOCKED));
    GET DIAGNOSTICS given = ROW_COUNT;
    IF given > 0 THEN
        PERFORM {{.Announce}};
    END IF;
    RETURN given + old;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "slot_sweep"}}(integer) FROM PUBLIC;
