-- Nothing -> Ready, in the caller's transaction: the rows that the function for one row would write, from an array of
-- objects whose fields are its parameters. A field that is null is left out. It returns a row for each object, in their
-- order. All objects are checked before a row is written, and nothing is locked before. What only the function for one
-- row checks is refused when it is called, and undone.
--
-- insert.sql writes the rows, as for Go. Those that it leaves, since their unique values are taken, and those that need
-- statements of their own, go to the function for one row, which tries again if a holder was deleted meanwhile.
--
-- Ids that are not given are UUIDs version 7 that grow in the order of the objects: behind the time, 14 bits count.
--
-- The arrays are made in the order of a subquery. No aggregate beside them has an order of its own: PostgreSQL 16 and
-- later sort the rows of all aggregates for one that has.
--
-- #variable_conflict: the names in ON CONFLICT are columns.
CREATE FUNCTION {{.ManyFunction}}("rows" jsonb)
RETURNS TABLE (place integer, id uuid, duplicate boolean, replaced boolean
    {{- range .Returned}}, "{{.Name}}" {{.Type}}{{end}})
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
{{- if .Unique}}
SET enable_seqscan = off
SET enable_bitmapscan = off
{{- end}}
AS $txwork$
#variable_conflict use_column
DECLARE
    {{- template "many_declared" .}}
    {{- range .Returned}}
    {{.Variable}} {{.Type}}[];
    {{- end}}
    holders uuid[];
    written boolean[];
    replaces boolean[];
    one record;
    i integer;
BEGIN
    {{.RefuseArray}}
    {{.RefuseLength}}
    {{- template "many_read" .}}
    IF size = 0 THEN
        RETURN;
    END IF;
    {{- template "many_locked" .}}
    IF keyed AND true = ANY (alone) THEN -- rows of a key keep their order
        alone := array_fill(true, ARRAY[size]);
    END IF;
    {{- if .Changes}}
    SELECT array_agg(p.at ORDER BY p.ord) INTO places FROM unnest(places, ords) AS p (at, ord);
    holders := array_fill(NULL::uuid, ARRAY[cardinality({{.IDs}})]);
    FOR one IN
{{.Changes}}
    LOOP
        holders[one.ord] := one.id;
    END LOOP;
    {{- end}}
    {{- if .Unique}}
    {{- if .Plain}}
    IF holds THEN
    {{- end}}
        WITH w AS (
{{.Guarded}}
        )
        SELECT array_agg(w.id) INTO done FROM w;
    {{- end}}
    {{- if .Plain}}
    {{- if .Unique}}
    ELSE
    {{- end}}
        WITH w AS (
{{.Plain}}
        )
        SELECT array_agg(w.id) INTO done FROM w;
    {{- if .Unique}}
    END IF;
    {{- end}}
    {{- end}}

    IF cardinality(done) = cardinality({{.IDs}}) THEN
        written := array_fill(true, ARRAY[cardinality(done)]);
        holders := {{.IDs}};
    ELSE
        SELECT array_agg(g.written ORDER BY g.ord) INTO written
        FROM (
            SELECT u.ord, bool_or(u.ord IS NULL) OVER (PARTITION BY u.id) AS written
            FROM (SELECT s.id, s.ord FROM unnest({{.IDs}}) WITH ORDINALITY AS s (id, ord)
                UNION ALL SELECT w.id, NULL FROM unnest(done) AS w (id)) AS u) AS g
        WHERE g.ord IS NOT NULL;
{{.Find}};
        BEGIN
            FOR i IN
                {{.Missing}}
            LOOP
                SELECT w.* INTO one
                FROM {{.Function}}({{range $i, $p := .Params}}{{if $i}}, {{end}}{{.Element}}{{end}}) AS w;
                holders[i] := one.id;
                written[i] := NOT one.duplicate;
                {{- range .Results}}
                {{$.ResultOf .}}[i] := one.{{.}};
                {{- end}}
            END LOOP;
        EXCEPTION WHEN invalid_parameter_value THEN -- what only the function for one row checks
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'rows',
                MESSAGE = format('rows has a wrong element %s: %s', i, SQLERRM), HINT = {{.Hint}};
        END;
    END IF;
    {{- if .Changes}}
    RETURN QUERY
    SELECT l.ord::integer, holders[l.at], NOT written[l.at], {{.Replaced "l.at"}}
        {{- range .Returned}}, {{.Result (printf "%s[l.at]" .Variable)}}{{end}}
    FROM unnest(places) WITH ORDINALITY AS l (at, ord)
    ORDER BY l.ord;
    {{- else}}
    RETURN QUERY
    SELECT s.ord::integer, s.id, NOT s.written, {{.Replaced "s.ord"}}
        {{- range .Returned}}, {{.Result (printf "s.%s" .Variable)}}{{end}}
    FROM unnest(holders, written{{range .Returned}}, {{.Variable}}{{end}}) WITH ORDINALITY
        AS s (id, written{{range .Returned}}, {{.Variable}}{{end}}, ord)
    ORDER BY s.ord;
    {{- end}}
END
$txwork$;

REVOKE ALL ON FUNCTION {{.ManyFunction}}(jsonb) FROM PUBLIC;
{{- define "many_declared"}}
    began CONSTANT text := lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0');
    {{- range .Params}}
    {{.Variable}} {{.Bind}}[];
    {{- end}}
    size integer;
    bad bigint;
    keyed boolean;
    holds boolean;
    locks bigint[];
    alone boolean[];
    {{- if .Changes}}
    places integer[];
    ords bigint[];
    {{- end}}
    done uuid[];
{{- end}}
{{- define "many_read"}}
    SELECT min(e.ord) INTO bad
    FROM jsonb_array_elements({{.Source}}) WITH ORDINALITY AS e (value, ord)
    WHERE CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value - {{.Known}} <> '{}'{{.Twice}} ELSE true END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = {{.Parameter "bad"}},
            MESSAGE = format('%s, it must be an object with known fields: %s', {{.Element "bad"}},
                left({{.Source}} ->> (bad - 1)::integer, 100)),
            HINT = {{.Hint}};
    END IF;
    BEGIN
        SELECT count(*)::integer, min(r.ord * 1000 + {{.Refused}}),
            bool_or({{.Keyed}}), bool_or({{.Holds}}),
            {{with .Lock}}array_agg({{.}}){{else}}NULL{{end}},
            array_agg({{.Alone}}){{.Last}}{{if .Changes}}, array_agg(r.at), array_agg(r.ord){{end}}
            {{- range .Params}},
            array_agg(r.{{.Alias}}){{$.Last}}
            {{- end}}
        INTO size, bad, keyed, holds, locks, alone{{if .Changes}}, places, ords{{end}}
            {{- range .Params}}, {{.Variable}}{{end}}
        FROM (
            {{- if .Changes}}
            SELECT q.*, dense_rank() OVER (ORDER BY {{.Values}}) AS at,
                q.ord = max(q.ord) OVER (PARTITION BY {{.Values}}) AS last
            FROM (
            {{- end}}
            {{.Objects .Source}}
            OFFSET 0
            {{- if .Changes}}) AS q
            ORDER BY {{.Values}}, q.ord
            {{- end}}) AS r;
    EXCEPTION WHEN data_exception THEN
        FOR bad IN 1..jsonb_array_length({{.Source}}) LOOP -- which one is it?
            BEGIN
                PERFORM r.* FROM (
            {{.Objects (printf "jsonb_build_array(%s -> bad - 1)" .Source)}}) AS r;
            EXCEPTION WHEN data_exception THEN
                RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = {{.Parameter "bad"}},
                    MESSAGE = format('%s, a value is not of its field''s type: %s', {{.Element "bad"}}, SQLERRM),
                    HINT = {{.Hint}};
            END;
        END LOOP;
        RAISE;
    END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = {{.Parameter "bad / 1000"}},
            MESSAGE = format('%s: %s', {{.Element "bad / 1000"}}, ({{.Messages}})[bad % 1000]),
            HINT = {{.Hint}};
    END IF;
{{- end}}
{{- define "many_locked"}}
    {{- if .Key}}
    IF keyed THEN
        PERFORM WHERE {{.RunsTriggers}};
    END IF;
    {{- end}}
    {{- if .Lock}}
    -- In the same order in every transaction, to avoid deadlocks. More of them than a transaction may take are not
    -- taken: the insert then refuses them with a message.
    locks := ARRAY(SELECT DISTINCT k.lock FROM unnest(locks) AS k (lock) WHERE k.lock IS NOT NULL ORDER BY 1);
    IF cardinality(locks) > 1 AND cardinality(locks) <= {{.MaxLocks}} THEN
        PERFORM pg_advisory_xact_lock(k.lock) FROM unnest(locks) AS k (lock);
    END IF;
    {{- end}}
{{- end}}
{{- define "many_written"}}
    WITH w AS (
{{.Plain}}
    )
    SELECT array_agg(w.id) INTO done FROM w;
    IF cardinality(done) IS DISTINCT FROM cardinality({{.IDs}}) THEN
        {{- template "suppressed" .}}
    END IF;
{{- end}}
