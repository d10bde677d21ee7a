-- Deletes up to max_members members of the joins, and then the joins that have none left. Returns how many joins it
-- deleted. Members that another session holds locked are skipped, and their joins stay. The caller holds the joins'
-- rows FOR UPDATE.
CREATE FUNCTION {{.Function "forget"}}(ids uuid[], max_members integer) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
DECLARE
    forgotten integer;
BEGIN
    {{.SeesAll}}
    DELETE FROM {{.Member}} AS m
    WHERE m.ctid = ANY (ARRAY(
        SELECT r.ctid FROM {{.Member}} AS r WHERE r.join_id = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED));
    DELETE FROM {{.Join}} AS j
    WHERE j.id = ANY ($1) AND NOT EXISTS (SELECT FROM {{.Member}} AS m WHERE m.join_id = j.id);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "forget"}}(uuid[], integer) FROM PUBLIC;

-- Deletes up to max_rows joins that ended longer ago than age, oldest first. A join is kept while a continuation may
-- still read it.
CREATE FUNCTION {{.Function "purge"}}(age interval, max_rows integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    {{.SeesAll}}
    {{.Bounded "$2" "max_rows"}}
    RETURN {{.Function "forget"}}(ARRAY(
        SELECT j.id
        FROM {{.Join}} AS j
        WHERE j.completed_at IS NOT NULL AND j.completed_at < now() - $1 AND NOT {{.Needed "j"}}
        ORDER BY j.completed_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED), NULL);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "purge"}}(interval, integer) FROM PUBLIC;
