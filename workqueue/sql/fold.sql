-- One transaction of the procedure fold: each fold of the table once. The cursor says how far each fold came, so that
-- notes that are deleted but not yet vacuumed are not read again, and when the next pass from the start is due, which
-- finds notes that older transactions have written behind the cursor: after forty times as long as the last pass took,
-- and after between a second and a minute. A cursor of another table counts as none, and so does a pass that is further
-- ahead than that, as it is after a failover. The numbers are microseconds.
CREATE FUNCTION {{.Function "fold_step"}}(
    max_notes integer, INOUT cursor text, INOUT folded integer, OUT again_in double precision, OUT busy boolean,
    OUT more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_variable
DECLARE
    started constant timestamptz := clock_timestamp();
    own constant text := left(md5('{{.TableName}}'), 8);
    said text[] := regexp_match(cursor, '^fold1 ([0-9a-f]{8}) ([0-9]{1,17}) ([0-9,]{0,99})$');
    places bigint[] := array_fill(NULL::bigint, ARRAY[{{len .FoldFunctions}}]);
    next_pass timestamptz;
    whole boolean := true;
    f record;
BEGIN
    {{.Bounded "max_notes" "max_notes"}}
    {{.RefusesCursor "cursor IS NULL OR said IS NOT NULL"}}
    IF said[1] = own THEN
        places := string_to_array(said[3], ',', '')::bigint[];
        next_pass := 'epoch'::timestamptz + said[2]::bigint * interval '1 microsecond';
        whole := started NOT BETWEEN next_pass - interval '1 minute' AND next_pass;
    END IF;
    folded := coalesce(folded, 0);
    again_in := 60;
    busy := false;
    more := false;
    {{- range $i, $function := .FoldFunctions}}
    SELECT r.folded, r.again, (extract(epoch FROM r.upto) * 1000000)::bigint AS upto INTO f
    FROM {{$function}}(max_notes, CASE WHEN whole OR places[{{$.Inc $i}}] IS NULL THEN '-infinity'
        ELSE 'epoch'::timestamptz + places[{{$.Inc $i}}] * interval '1 microsecond' END) AS r;
    IF f.folded IS NULL THEN
        busy := true;
    ELSE
        folded := folded + f.folded;
        more := more OR f.folded > 0 AND f.again <= 0;
        again_in := least(again_in, CASE WHEN f.again IS NOT NULL THEN greatest(f.again, 0) END);
        places[{{$.Inc $i}}] := CASE WHEN f.folded > 0 AND f.again <= 0 THEN f.upto
            ELSE greatest(f.upto, places[{{$.Inc $i}}]) END;
    END IF;
    {{- end}}
    IF whole AND NOT busy THEN
        next_pass := clock_timestamp()
            + greatest(interval '1 second', least(40 * (clock_timestamp() - started), interval '1 minute'));
    END IF;
    again_in := CASE WHEN more THEN 0
        ELSE least(again_in, greatest(extract(epoch FROM next_pass - clock_timestamp()), 0)) END;
    IF busy THEN
        again_in := greatest(again_in, 1);
    END IF;
    cursor := format('fold1 %s %s %s', own, coalesce((extract(epoch FROM next_pass) * 1000000)::bigint, 0),
        array_to_string(places, ',', ''));
END
$txwork$;

-- Applies the notes that triggers have written, until none is due. It commits after each step, so that a caller who
-- stays in a transaction afterwards holds no lock that keeps others from folding; in a caller's transaction PostgreSQL
-- refuses it (2D000). It cannot pin a search_path: every name is qualified, and no operator is used. If a crash undoes
-- a fold, its notes are still there, so its commits do not wait for the log.
CREATE PROCEDURE {{.Function "fold"}}(
    INOUT cursor text DEFAULT NULL, INOUT folded integer DEFAULT NULL, INOUT again_in double precision DEFAULT NULL,
    INOUT busy boolean DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    more pg_catalog.bool;
BEGIN
    SELECT 0 INTO folded;
    FOR round IN 1..{{.MaxRounds}} LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        SET LOCAL synchronous_commit TO off;
        SELECT s.cursor, s.folded, s.again_in, s.busy, s.more INTO cursor, folded, again_in, busy, more
        FROM {{.Function "fold_step"}}({{.FoldLimit}}, cursor, folded) AS s;
        EXIT WHEN more IS NOT TRUE;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "fold_step"}}(integer, text, integer) FROM PUBLIC;
REVOKE ALL ON PROCEDURE {{.Function "fold"}}(text, integer, double precision, boolean) FROM PUBLIC;
