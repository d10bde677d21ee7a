-- Deletes joins with their members. The caller holds the joins' rows FOR UPDATE: a late member that waits
-- for one in count then finds no join, and nothing to count.
CREATE FUNCTION {{.Function "forget"}}(ids uuid[]) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    DELETE FROM {{.Member}} AS m WHERE m.join_id = ANY ($1);
    DELETE FROM {{.Join}} AS j WHERE j.id = ANY ($1);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "forget"}}(uuid[]) FROM PUBLIC;

-- Deletes up to max_rows joins that ended longer ago than age, oldest first.
CREATE FUNCTION {{.Function "purge"}}(age interval, max_rows integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
DECLARE
    old uuid[];
BEGIN
    SELECT array_agg(l.id) INTO old
    FROM (
        SELECT j.id
        FROM {{.Join}} AS j
        WHERE j.completed_at IS NOT NULL AND j.completed_at < now() - $1
        ORDER BY j.completed_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS l;
    PERFORM {{.Function "forget"}}(old);
    RETURN coalesce(cardinality(old), 0);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "purge"}}(interval, integer) FROM PUBLIC;
