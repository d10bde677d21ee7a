-- Counts pending joins anew from their members' rows, which also repairs changes without a note, such as a restore
-- without triggers; and sums up ended joins anew. The caller holds the joins. A member whose row is gone without an
-- outcome counts as failed, unless a pending note will say how it ended. All members of a join without memberships
-- count as failed. It counts at least one join, and stops after {{.MaxMembers}} members; for the other joins it writes
-- notes.
CREATE FUNCTION {{.Function "recount"}}(ids uuid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    chosen uuid[];
BEGIN
    {{.SeesAll}}
    chosen := ARRAY(
        SELECT s.id
        FROM (
            SELECT j.id, sum(j.expected::bigint) OVER (ORDER BY j.id) - j.expected AS members_before
            FROM {{.Join}} AS j
            WHERE j.id = ANY ($1)
        ) AS s
        WHERE s.members_before < {{.MaxMembers}});
    INSERT INTO {{.Note}} (join_id)
    SELECT u.id FROM unnest($1) AS u (id) EXCEPT SELECT u.id FROM unnest(chosen) AS u (id);

    WITH missed AS MATERIALIZED (
        SELECT m.ctid AS place,
               CASE WHEN t.status = 2 THEN 1 WHEN t.completed_at IS NOT NULL OR t.id IS NULL THEN 2 END AS outcome
        FROM {{.Join}} AS j
        JOIN {{.Member}} AS m ON m.join_id = j.id
        LEFT JOIN {{.Table}} AS t ON t.id = m.member_id
        WHERE j.id = ANY (chosen)
          AND j.status = 0
          AND CASE WHEN t.id IS NULL
              THEN m.outcome IS NULL
                  AND m.member_id NOT IN (SELECT n.member_id FROM {{.Note}} AS n WHERE n.member_id IS NOT NULL)
              ELSE m.outcome IS DISTINCT FROM CASE WHEN t.status = 2 THEN 1 WHEN t.completed_at IS NOT NULL THEN 2 END
          END
        FOR NO KEY UPDATE OF m SKIP LOCKED
    )
    UPDATE {{.Member}} AS m SET outcome = s.outcome FROM missed AS s WHERE m.ctid = s.place;

    UPDATE {{.Join}} AS j
    SET expected = c.expected,
        succeeded = c.succeeded,
        failed = c.failed,
        late = c.late
    FROM (
        SELECT m.join_id,
               count(*) AS expected,
               count(*) FILTER (WHERE m.outcome = 1) AS succeeded,
               count(*) FILTER (WHERE m.outcome = 2) AS failed,
               count(*) FILTER (WHERE m.late > 0) AS late
        FROM {{.Member}} AS m
        WHERE m.join_id = ANY (chosen)
        GROUP BY m.join_id
    ) AS c
    WHERE j.id = c.join_id
      AND (j.expected, j.succeeded, j.failed, j.late) IS DISTINCT FROM (c.expected, c.succeeded, c.failed, c.late);

    UPDATE {{.Join}} AS j
    SET succeeded = 0, failed = j.expected
    WHERE j.id = ANY (chosen)
      AND j.status = 0
      AND NOT EXISTS (SELECT FROM {{.Member}} AS m WHERE m.join_id = j.id);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "recount"}}(uuid[]) FROM PUBLIC;
