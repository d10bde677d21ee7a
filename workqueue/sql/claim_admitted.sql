-- Ready -> InProgress for as many rows as the rule of a lane admits. It calls the domain's functions admit, starts and
-- permit before the claim and take after it, all in one call, so that a client cannot freeze in between. Every row
-- repeats the result of admit; if no row was claimed, one row has only that.
--
-- What these lock is locked until the claim commits, so a claim that got fewer than are free asks again soon.
-- take is called once, after the update is complete, with the ids of all its rows.
CREATE FUNCTION {{.Function "claim_admitted"}}(
    owner_token uuid, lease interval, batch_size integer, after_due timestamptz[], after_id uuid[]
    {{- range .Lanes}}, {{.Quoted}} {{.Type}}[]{{end}}
) RETURNS TABLE (admitted integer, again double precision, bounded boolean, claimed {{.Table}})
LANGUAGE plpgsql
{{.FunctionSettings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    rule record;
    starts bigint[];
    permits integer[];
    free integer;
BEGIN
    {{.RefusesClaim}}
    {{.RefusesOthers .Admission .RuleArgument}}
    SELECT a.admitted, a.again, a.bounded INTO rule FROM {{.Function "admit"}}({{.RuleArgument}}[1], $3) AS a;
    IF rule.bounded AND rule.admitted > 0 THEN
        starts := {{.Function "starts"}}({{.RuleArgument}}[1], rule.admitted);
        free := least(rule.admitted, cardinality(array_remove(starts, NULL)));
        permits := {{.Function "permit"}}({{.RuleArgument}}[1], free);
        free := least(free, cardinality(array_remove(permits, NULL)));
        IF free < rule.admitted THEN
            rule.admitted := free;
            rule.again := {{.BusyPause}};
        END IF;
    END IF;
    IF rule.admitted < 1 THEN
        RETURN QUERY SELECT 0, rule.again, rule.bounded, NULL::{{.Table}};
        RETURN;
    END IF;
    RETURN QUERY
    WITH changed AS (
{{.AdmittedClaim}}
    ), taken AS MATERIALIZED (
        SELECT {{.Function "take"}}({{.RuleArgument}}[1], $1, array_agg((c.claimed).id), permits, starts)
        FROM changed AS c
        HAVING count(*) > 0 AND rule.bounded
    )
    SELECT rule.admitted, rule.again, rule.bounded, c.claimed
    FROM (SELECT count(*) FROM taken) AS t
    LEFT JOIN changed AS c ON true;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "claim_admitted"}}(
    uuid, interval, integer, timestamptz[], uuid[]{{range .Lanes}}, {{.Bind}}[]{{end}}
) FROM PUBLIC;
