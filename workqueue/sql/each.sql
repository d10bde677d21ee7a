-- Does one kind of maintenance although rows are in its way, such as a row that a foreign key of the application keeps
-- from being deleted: the part of the rows that failed is halved until the row is by itself, and skipped. The next part
-- is twice as large as one that succeeded. Each part is a subtransaction, so n rows cost at most about three each, and
-- a few bad rows some tens together. A part waits little for locks, because the next ones wait for it.
--
-- If nothing succeeds, the rows are not the cause, and the error is raised: one about rights or names at once, another
-- after {{.MaxVain}} rows.
CREATE FUNCTION {{.Function "each"}}(
    kind text, max_rows integer, age interval, except_ids uuid[],
    OUT done integer, OUT failed integer, OUT cancelled integer, OUT dead_letters jsonb, OUT skipped uuid[],
    OUT problems text[]
)
LANGUAGE plpgsql
{{.FunctionSettings}}
SET lock_timeout = '50ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    ids uuid[];
    part uuid[];
    beside uuid[]; -- rows that are not the only one of their process
    place integer := 1;
    size integer;
    changed record;
    state text;
    said text;
BEGIN
    {{.Bounded "$2" "max_rows"}}
    done := 0;
    failed := 0;
    cancelled := 0;
    skipped := '{}';
    problems := '{}';
    CASE $1
    WHEN 'reap_expired' THEN
        ids := ARRAY(
{{.Listed "reap_expired"}});
        beside := ARRAY(
            SELECT p.id
            FROM (
                SELECT r.id, count(*) OVER (PARTITION BY {{template "process" "r"}}) AS rows
                FROM {{.Table}} AS r
                WHERE r.completed_at IS NULL
                  AND NOT r.waiting
                  AND r.status = 1
                  AND r.due_at <= now()) AS p
            WHERE p.rows > 1);
    WHEN 'purge_done' THEN
        ids := ARRAY(
{{.Listed "purge_done"}});
    WHEN 'purge_failed' THEN
        ids := ARRAY(
{{.Listed "purge_failed"}});
    END CASE;
    size := cardinality(ids);
    WHILE place <= cardinality(ids) LOOP
        part := ids[place:place + size - 1];
        BEGIN
            CASE $1
            WHEN 'reap_expired' THEN
                FOR changed IN
{{.OfPart "reap_expired"}}
                LOOP
                    done := done + changed.requeued;
                    failed := failed + changed.failed;
                    cancelled := cancelled + changed.cancelled;
                    dead_letters := coalesce(dead_letters, '[]') || coalesce(changed.dead_letters, '[]');
                END LOOP;
            WHEN 'purge_done' THEN
                WITH purged AS (
{{.OfPart "purge_done"}})
                SELECT done + count(*) INTO done FROM purged;
            WHEN 'purge_failed' THEN
                WITH purged AS (
{{.OfPart "purge_failed"}})
                SELECT done + count(*) INTO done FROM purged;
            END CASE;
            place := place + size;
            size := size * 2;
        EXCEPTION WHEN others THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
            IF size > 1 THEN
                size := size / 2;
            ELSE
                skipped := skipped || ids[place];
                problems := problems || (said || ' (SQLSTATE ' || state || ')');
                place := place + 1;
                IF done + failed = 0
                    AND (cardinality(skipped) >= {{.MaxVain}} OR place > cardinality(ids) AND state LIKE '42%') THEN
                    RAISE EXCEPTION '%', said USING ERRCODE = state;
                END IF;
            END IF;
        END;
    END LOOP;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "each"}}(text, integer, interval, uuid[]) FROM PUBLIC;
