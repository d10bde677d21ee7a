-- pending -> completed, failed or cancelled: the one place that ends a join. Without a verdict, the counts, the policy
-- and the deadline decide, and a join that is not over stays as it is. Returns how many continuations it released.
--
-- status = 0 in the UPDATE ends each join only once. The continuations change in the same transaction. They are
-- waiting, so no worker claims or settles them meanwhile. A continuation that was cancelled is left alone, and so is
-- one that was redriven after that and now waits only for its key. A session that cancels a join waits here for the
-- sessions that hold its continuations; a fold has locked all of them before.
--
-- A role from which row-level security hides rows may cancel joins whose continuations it sees, and end no others: the
-- join would end, and a continuation that it does not see would wait for ever.
--
-- The state of a continuation becomes 0, Ready, if it is released; 2, Done, for an on_fail that is not needed, as if it
-- had run and found nothing to do, since a dead letter could be redriven and would undo what succeeded; and 3, Failed
-- and cancelled, for an on_complete that will not run.
CREATE FUNCTION {{.Function "end"}}(ids uuid[], verdict smallint, error text) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    targets uuid[];
    states smallint[];
    reasons text[];
    released integer;
BEGIN
    IF ({{.Hides}})
        AND ($2 IS NULL OR EXISTS (
            SELECT FROM {{.Join}} AS j
            CROSS JOIN LATERAL (VALUES (j.on_complete), (j.on_fail)) AS c (id)
            WHERE j.id = ANY ($1) AND c.id IS NOT NULL AND NOT EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = c.id)))
    THEN
        {{.Refuse}}
    END IF;
    WITH ended AS (
        UPDATE {{.Join}} AS j
        SET status = coalesce($2, CASE WHEN NOT {{.Counted "j"}} OR j.failed > 0 AND j.policy <> 2 THEN 2 ELSE 1 END),
            completed_at = clock_timestamp(),
            look_at = clock_timestamp() + j.retention,
            last_error = coalesce($3, CASE
                WHEN $2 IS NULL AND NOT {{.Counted "j"}} THEN 'the deadline has passed'
                WHEN j.failed > 0 AND j.policy <> 2 THEN coalesce((
                    SELECT format('%s of %s steps failed, among them %s: %s', j.failed, j.expected, m.member_id,
                                  left(coalesce(t.last_error, 'the row is gone'), 1000))
                    FROM {{.Member}} AS m
                    LEFT JOIN {{.Table}} AS t ON t.id = m.member_id
                    WHERE m.join_id = j.id AND m.outcome = 2
                    LIMIT 1), 'nobody knows what its steps were')
            END)
        WHERE j.id = ANY ($1)
          AND j.status = 0
          AND ($2 IS NOT NULL OR {{.Over "j"}})
        RETURNING j.id, j.status, j.on_complete, j.on_fail, j.last_error
    ), continuation AS (
        SELECT e.on_complete AS id,
               CASE WHEN e.status = 1 OR e.status = 2 AND e.on_complete = e.on_fail THEN 0 ELSE 3 END AS state,
               e.id AS join_id, e.status, e.last_error
        FROM ended AS e
        WHERE e.on_complete IS NOT NULL
        UNION ALL
        SELECT e.on_fail, CASE WHEN e.status = 2 THEN 0 ELSE 2 END, e.id, e.status, e.last_error
        FROM ended AS e
        WHERE e.on_fail IS NOT NULL AND e.on_fail IS DISTINCT FROM e.on_complete
    )
    SELECT array_agg(c.id ORDER BY c.id),
           array_agg(c.state ORDER BY c.id),
           array_agg(CASE WHEN c.state > 0 THEN format(
               CASE WHEN c.state = 2 THEN 'not needed: join %s %s%s' ELSE 'cancelled: join %s %s%s' END,
               c.join_id, CASE c.status WHEN 1 THEN 'completed' WHEN 2 THEN 'failed' ELSE 'was cancelled' END,
               ': ' || c.last_error
           ) END ORDER BY c.id)
    INTO targets, states, reasons
    FROM continuation AS c;
    IF targets IS NULL THEN
        RETURN 0;
    END IF;

    WITH changed AS (
        UPDATE {{.Table}} AS t
        SET waiting = c.state > 0, -- a continuation that ends keeps waiting, as a cancelled row does
            status = c.state,
            -- now() and not clock_timestamp(), so that a drain inside a transaction can claim it
            due_at = CASE WHEN c.state = 0 THEN greatest(t.due_at, now()) ELSE t.due_at END,
            completed_at = CASE WHEN c.state > 0 THEN clock_timestamp() END,
            failed_at = CASE WHEN c.state = 3 THEN clock_timestamp() END,
            cancelled_at = CASE WHEN c.state > 0 THEN clock_timestamp() END,
            last_error = coalesce(c.reason, t.last_error)
        FROM unnest(targets, states, reasons) AS c (id, state, reason)
        -- CASE hides from the planner that few rows wait: it would otherwise scan the whole table to find them.
        WHERE t.id = c.id
          AND CASE WHEN t.status = 0 THEN {{.WaitsForJoin "t"}} ELSE false END
        RETURNING c.state
    )
    SELECT count(*) FILTER (WHERE c.state = 0) INTO released FROM changed AS c;
    {{- if .DeleteDone}}

    DELETE FROM {{.Table}} AS t
    USING unnest(targets, states) AS c (id, state)
    WHERE t.id = c.id AND c.state = 2 AND t.status = 2;
    {{- end}}

    IF released > 0 THEN
        PERFORM {{.Announce.Folded}};
    END IF;
    RETURN released;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "end"}}(uuid[], smallint, text) FROM PUBLIC;
