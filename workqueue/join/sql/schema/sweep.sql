-- Repairs and cleans up without notes: it has pending joins counted anew, which repairs a stranded one; deletes ended
-- joins after their retention, up to {{.MaxMembers}} members at a time; and ends rows whose join is gone. A join that a
-- continuation may still read is kept, and looked at again in an hour. Returns how many joins and rows it handled.
--
-- One index finds the joins to look at: pending ones at an age of one minute, two, four and so on, at least every
-- quarter of an hour. Rows that another session holds are left to the next sweep.
CREATE FUNCTION {{.Function "sweep"}}(max_rows integer DEFAULT 100) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    pending uuid[];
    ended uuid[];
    needed uuid[];
BEGIN
    {{.SeesAll}}
    {{.Bounded "max_rows" "max_rows"}}
    SELECT array_agg(l.id) FILTER (WHERE l.status = 0),
           array_agg(l.id) FILTER (WHERE l.status <> 0 AND NOT {{.Needed "l"}}),
           array_agg(l.id) FILTER (WHERE l.status <> 0 AND {{.Needed "l"}})
    INTO pending, ended, needed
    FROM (
        SELECT j.id, j.status, j.on_complete, j.on_fail
        FROM {{.Join}} AS j
        WHERE j.look_at <= now()
        ORDER BY j.look_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS l;
    IF pending IS NOT NULL THEN
        INSERT INTO {{.Note}} (join_id) SELECT u.id FROM unnest(pending) AS u (id);
        PERFORM {{.Announce.Note}};
        UPDATE {{.Join}} AS j
        SET look_at = now() + least(greatest(now() - j.created_at, interval '1 minute'), interval '15 minutes')
        WHERE j.id = ANY (pending);
    END IF;
    IF needed IS NOT NULL THEN
        UPDATE {{.Join}} AS j SET look_at = now() + interval '1 hour' WHERE j.id = ANY (needed);
    END IF;
    RETURN coalesce(cardinality(pending), 0) + coalesce(cardinality(needed), 0)
        + {{.Function "forget"}}(ended, {{.MaxMembers}})
        + {{.Function "strand"}}($1);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "sweep"}}(integer) FROM PUBLIC;
