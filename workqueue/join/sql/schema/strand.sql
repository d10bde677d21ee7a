-- Ready -> Failed for rows that wait for a join which is gone, as after a restore without the table of joins. What their
-- steps came to is not known, so they are dead letters for somebody to redrive. A row has a quarter of an hour for its
-- join to be started.
--
-- Looks at some of the rows that wait, behind those of the last call, at most every five seconds. Returns how many it ended.
CREATE FUNCTION {{.Function "strand"}}(max_rows integer) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
DECLARE
    most CONSTANT integer := least(max_rows, {{.MaxWaiting}});
    place uuid;
    looked uuid[];
    held uuid[];
    stranded integer;
BEGIN
    SELECT c.row_id INTO place FROM {{.Cursor}} AS c
    WHERE c.swept_at NOT BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM {{.Cursor}}) THEN -- somebody truncated it
            INSERT INTO {{.Cursor}} DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- somebody else sweeps, or has just done so
    END IF;
    looked := ARRAY(
        SELECT t.id FROM {{.Table}} AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.id > place
        ORDER BY t.id
        LIMIT most);
    UPDATE {{.Cursor}} AS c -- fewer than it may look at were the last: the next call begins anew
    SET row_id = coalesce(looked[most], '00000000-0000-0000-0000-000000000000'), swept_at = clock_timestamp();

    held := ARRAY(
        SELECT t.id FROM {{.Table}} AS t
        WHERE t.id = ANY (looked) AND {{.Stranded}}
        FOR NO KEY UPDATE SKIP LOCKED);
    UPDATE {{.Table}} AS t
    SET status = 3,
        completed_at = clock_timestamp(),
        failed_at = clock_timestamp(),
        last_error = 'waited for a join that is gone'
    WHERE t.id = ANY (held) AND {{.Stranded}}; -- again: a join may have been started before the row was locked
    GET DIAGNOSTICS stranded = ROW_COUNT;
    RETURN stranded;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "strand"}}(integer) FROM PUBLIC;
