-- Ready -> InProgress of what the rules of a lane let pass: the domain's functions admit and take around the claim, all
-- in one call, so that no process can freeze in between. Every row says what admit said, also the one without a claim.
--
-- admit has the claims of one rule follow each other until they commit. take is called when the update is complete, whose
-- rows it is given together.
CREATE FUNCTION {{.Function "claim_admitted"}}(
    owner_token uuid, lease interval, batch_size integer, after_due timestamptz[], after_id uuid[]
    {{- range .Lanes}}, {{.Quoted}} {{.Type}}[]{{end}}
) RETURNS TABLE (admitted integer, again double precision, bounded boolean, claimed {{.Table}})
LANGUAGE plpgsql
{{.FunctionSettings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule record;
BEGIN
    IF array_length({{.RuleArgument}}, 1) > 1 AND {{.RuleArgument}}[1] <> ALL ({{.RuleArgument}}) THEN
        RAISE EXCEPTION 'one claim is of one rule' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT a.admitted, a.again, a.bounded INTO rule FROM {{.Function "admit"}}({{.RuleArgument}}[1], $3) AS a;
    IF rule.admitted < 1 THEN
        RETURN QUERY SELECT 0, rule.again, rule.bounded, NULL::{{.Table}};
        RETURN;
    END IF;
    RETURN QUERY
    WITH changed AS (
{{.AdmittedClaim}}
    ), taken AS MATERIALIZED (
        SELECT {{.Function "take"}}({{.RuleArgument}}[1], array_agg((c.claimed).id)) FROM changed AS c HAVING count(*) > 0 AND rule.bounded
    )
    SELECT rule.admitted, rule.again, rule.bounded, c.claimed
    FROM (SELECT count(*) FROM taken) AS t
    LEFT JOIN changed AS c ON true;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "claim_admitted"}}(uuid, interval, integer, timestamptz[], uuid[]{{range .Lanes}}, {{.Bind}}[]{{end}}) FROM PUBLIC;
