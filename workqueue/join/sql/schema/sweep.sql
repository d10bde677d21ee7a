-- What no settle can do: fails joins whose deadline has passed, by the database's clock; repairs pending
-- joins whose counts are behind their members' rows; forgets ended joins after their retention. Returns
-- how many continuations it released or ended.
--
-- One index tells which joins are to be looked at: at their deadline, and before that after a minute, two,
-- four, … of their age, at least every quarter of an hour. SKIP LOCKED leaves alone a join that is being
-- counted or swept this moment. The locks are held before the members are read, so a settle is either
-- committed and seen here or waits in count until this has ended.
CREATE FUNCTION {{.Function "sweep"}}(max_rows integer DEFAULT 100) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    pending uuid[];
    ended uuid[];
    changed integer;
BEGIN
    IF (max_rows >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(l.id) FILTER (WHERE l.status = 0), array_agg(l.id) FILTER (WHERE l.status <> 0)
    INTO pending, ended
    FROM (
        SELECT j.id, j.status
        FROM {{.Join}} AS j
        WHERE j.look_at <= now()
        ORDER BY j.look_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS l;
    IF ended IS NOT NULL THEN
        PERFORM {{.Function "forget"}}(ended);
    END IF;
    IF pending IS NULL THEN
        RETURN 0;
    END IF;
    -- Some hundred milliseconds' worth of members, but one join at least. The next sweep goes on.
    pending := ARRAY(
        SELECT s.id
        FROM (
            SELECT j.id, sum(j.expected) OVER (ORDER BY j.look_at, j.id) - j.expected AS members_before
            FROM {{.Join}} AS j
            WHERE j.id = ANY (pending)
        ) AS s
        WHERE s.members_before < 20000);

    UPDATE {{.Member}} AS m
    SET outcome = CASE WHEN t.status = 2 THEN 1 ELSE 2 END
    FROM {{.Member}} AS o
    LEFT JOIN {{.Table}} AS t ON t.id = o.member_id
    WHERE o.join_id = ANY (pending)
      AND o.outcome IS NULL
      AND (t.id IS NULL OR t.completed_at IS NOT NULL)
      AND m.member_id = o.member_id
      AND m.join_id = o.join_id;

    UPDATE {{.Join}} AS j
    SET expected = c.expected,
        succeeded = c.succeeded,
        failed = c.failed
    FROM (
        SELECT m.join_id,
               count(*) AS expected,
               count(*) FILTER (WHERE m.outcome = 1) AS succeeded,
               count(*) FILTER (WHERE m.outcome = 2) AS failed
        FROM {{.Member}} AS m
        WHERE m.join_id = ANY (pending)
        GROUP BY m.join_id
    ) AS c
    WHERE j.id = c.join_id
      AND (j.expected, j.succeeded, j.failed) IS DISTINCT FROM (c.expected, c.succeeded, c.failed);

    changed := {{.Function "end"}}(pending, NULL, NULL);
    changed := changed + {{.Function "end"}}(
        ARRAY(SELECT j.id FROM {{.Join}} AS j WHERE j.id = ANY (pending) AND j.status = 0 AND j.deadline <= now()),
        2::smallint, 'the deadline has passed');
    UPDATE {{.Join}} AS j
    SET look_at = least(j.deadline, now() + least(greatest(now() - j.created_at, interval '1 minute'), interval '15 minutes'))
    WHERE j.id = ANY (pending) AND j.status = 0;
    RETURN changed;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "sweep"}}(integer) FROM PUBLIC;
