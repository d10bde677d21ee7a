-- Ready -> Failed for rows that wait for a join which is gone, as after a restore without the table of joins. How the
-- join would have ended is unknown, so the rows become dead letters that an operator can redrive. A row is left alone
-- for a quarter of an hour, so that its join can be started.
--
-- Each call looks at some of the waiting rows, beginning where the last call stopped, at most every five seconds.
-- Returns how many rows it ended.
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
    {{.SeesAll}}
    {{.Bounded "$1" "max_rows"}}
    SELECT c.row_id INTO place FROM {{.Cursor}} AS c
    WHERE c.swept_at NOT BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM {{.Cursor}}) THEN -- the table was truncated
            INSERT INTO {{.Cursor}} DEFAULT VALUES ON CONFLICT DO NOTHING;
        END IF;
        RETURN 0; -- another session sweeps, or has swept in the last five seconds
    END IF;
    looked := ARRAY(
        SELECT t.id FROM {{.Table}} AS t
        WHERE t.completed_at IS NULL AND t.waiting AND t.id > place
        ORDER BY t.id
        LIMIT most);
    UPDATE {{.Cursor}} AS c -- if there were fewer rows than most, the next call starts over
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
