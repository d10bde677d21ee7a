-- Done with a payload -> Done without one: a tombstone. It strips a bounded batch at a time, oldest first. It reads
-- only the index of payloads, which contains no tombstones, and never waits for a lock (SKIP LOCKED). Only the purge
-- changes Done rows otherwise, so a row cannot change between the read and the lock.
CREATE FUNCTION {{.Function "strip"}}(
    max_rows integer DEFAULT 1000, retention interval DEFAULT interval '{{.Retention}}'
) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $txwork$
#variable_conflict use_column
DECLARE
    stripped integer;
BEGIN
    {{.Bounded "$1" "max_rows"}}
    {{.RefusesRetention}}
    UPDATE {{.Table}} AS t
    SET payload = NULL,
        headers = NULL
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NOT NULL
          AND r.failed_at IS NULL
          AND r.payload IS NOT NULL
          AND r.completed_at < now() - $2
        ORDER BY r.completed_at
        LIMIT $1
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS stripped = ROW_COUNT;
    RETURN stripped;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "strip"}}(integer, interval) FROM PUBLIC;
