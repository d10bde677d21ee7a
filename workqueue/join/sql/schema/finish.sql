-- Ends the given joins that are over, up to {{.MaxEnds}} of them, and writes notes for the rest. The caller holds the
-- joins. A join with a continuation that another session holds is tried again in half a second. careful ends the joins
-- one by one, and puts off those that the database refuses for a minute.
CREATE FUNCTION {{.Function "finish"}}(ids uuid[], careful boolean) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    free uuid[];
    held uuid[];
    one uuid;
    released integer := 0;
BEGIN
    {{.SeesAll}}
    SELECT array_agg(s.id) FILTER (WHERE s.free), array_agg(s.id) FILTER (WHERE NOT s.free)
    INTO free, held
    FROM (
        SELECT j.id,
               (SELECT count(*) FROM {{.Table}} AS t WHERE t.id IN (j.on_complete, j.on_fail))
               = (SELECT count(*) FROM (
                   SELECT FROM {{.Table}} AS t WHERE t.id IN (j.on_complete, j.on_fail) FOR NO KEY UPDATE SKIP LOCKED
               ) AS l) AS free
        FROM (
            SELECT * FROM {{.Join}} AS j WHERE j.id = ANY ($1) AND j.status = 0 AND {{.Over "j"}} LIMIT {{.MaxEnds}}
        ) AS j
    ) AS s;
    IF held IS NOT NULL THEN
        INSERT INTO {{.Note}} (at, join_id) SELECT {{.Soon}}, u.id FROM unnest(held) AS u (id);
    END IF;
    IF free IS NULL THEN
        RETURN 0;
    END IF;
    -- A role that may end no join would put all of them off.
    IF careful AND has_function_privilege('{{.Function "end"}}(uuid[], smallint, text)', 'EXECUTE') THEN
        FOREACH one IN ARRAY free LOOP
            BEGIN
                released := released + {{.Function "end"}}(ARRAY[one], NULL, NULL);
            EXCEPTION WHEN OTHERS THEN
                RAISE WARNING 'join % of {{.Name}} cannot end: %', one, SQLERRM;
                INSERT INTO {{.Note}} (at, join_id) VALUES (clock_timestamp() + interval '1 minute', one);
            END;
        END LOOP;
    ELSE
        released := {{.Function "end"}}(free, NULL, NULL);
    END IF;
    IF cardinality($1) > {{.MaxEnds}} THEN
        INSERT INTO {{.Note}} (join_id)
        SELECT j.id FROM {{.Join}} AS j
        WHERE j.id = ANY ($1) AND j.status = 0 AND {{.Over "j"}}
        EXCEPT SELECT u.id FROM unnest(free || held) AS u (id);
    END IF;
    RETURN released;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "finish"}}(uuid[], boolean) FROM PUBLIC;
