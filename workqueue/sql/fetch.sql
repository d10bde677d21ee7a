{{- /* The rows that a fetch takes, locked. */ -}}
{{define "locked"}}        FOR s IN
            SELECT c.ord, array_agg(c.ctid) AS rows, (array_agg(c.due_at))[count(*)] AS due_at,
                (array_agg(c.id))[count(*)] AS id{{if .Admission}}, array_agg(c.id) AS ids{{end}}
            FROM (
{{.Candidates}}) AS c
            GROUP BY c.ord
        LOOP
            taken := own.taken || own.s.rows;
            {{- if .Admission}}
            ids := own.ids || own.s.ids;
            {{- end}}
            reached[own.s.ord] := own.s.due_at;
            reached_id[own.s.ord] := own.s.id;
        END LOOP;
{{- end -}}

-- What {{.FetchName}} returns: rows, and one end. A later version appends columns at the end.
CREATE TYPE {{.Function "fetched"}} AS (
    entry text,
    place integer,
    id uuid,
    locked_until timestamptz,
    due_at timestamptz,
    created_at timestamptz,
    attempts integer,
    max_attempts integer,
    lost integer,
    headers jsonb,
    {{- range .FetchedColumns}}
    {{.Quoted}} {{.Type}},
    {{- end}}
    again_in double precision,
    more boolean,
    held text,
    cursor text
);

-- Ready -> InProgress for at most n rows of the lanes, which are read in the order of the arguments, each behind the
-- place that the cursor names. Returns them in claim order, and then one end: whether there may be more, in how many
-- seconds to fetch again if no notification comes, why rows may be left (held), and the next cursor.
--
-- heard are the payloads of the notifications since the previous fetch was sent: they move places back. A sweep reads
-- from the start, and finds what no notification has announced. It comes when its time has come, unless sweep says
-- otherwise, and takes at most one part in {{.SweepShare}} of the time.
--
-- The function locks the rows that it returns and, of a table with topics, those that it sets aside. Its caller may
-- stay in the transaction, so it bounds how long the session may be idle.
CREATE FUNCTION {{.Function "fetch"}}(
    {{.FetchParameters}}
) RETURNS SETOF {{.Function "fetched"}}
LANGUAGE plpgsql
{{.FunctionSettings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    {{- range .FetchLanes}}
    {{.Variable}} {{.Bind}}[];
    {{- end}}
    {{- range .TopicLane}}
    topic_lane CONSTANT text := {{$.FetchTopicLane}};
    {{- end}}
    batch integer := $3;
    place timestamptz[];
    place_id uuid[];
    reached timestamptz[];
    reached_id uuid[];
    digest text;
    fields text[];
    sweep_at bigint := 0; -- like all times of a cursor in microseconds, as are lengths of time
    sweep_took bigint := 0;
    unswept integer := 1;
    turn integer := 0;
    lead integer := 1; -- the lane that is read first
    heard_at timestamptz;
    fronts boolean;
    clock bigint;
    took bigint;
    is_sweep boolean;
    is_refused boolean := false;
    is_full boolean;
    got integer := 0;
    returned integer;
    due_in double precision;
    rule record;
    result {{.Function "fetched"}};
    {{- if .HasTopics}}
    busy CONSTANT text[] := '{}';
    lanes text[];
    lanes_due timestamptz[];
    lanes_id uuid[];
    rooms integer[];
    asks boolean;
    known text;
    rest_in double precision;
    {{template "sorting" .}}
    {{- else}}
    began CONSTANT timestamptz := clock_timestamp();
    s record;
    taken tid[] := '{}';
    {{- end}}
    {{- if .Admission}}
    ids uuid[] := '{}';
    starts bigint[];
    permits integer[];
    want integer;
    is_short boolean := false; -- the lanes had no more rows
    start timestamptz[];
    start_id uuid[];
    {{- end}}
BEGIN
    {{- if .HasTopics}}
    {{.SeesTopics}}
    {{- end}}
    {{- range .FetchChecks}}
    {{.}}
    {{- end}}
    {{- if .FetchArrays}}
    SELECT {{range $i, $l := .FetchLanes}}{{if $i}},
        {{end}}array_agg({{.Element}} ORDER BY {{$.FetchArrayOrder}}){{end}}
    INTO {{range $i, $l := .FetchLanes}}{{if $i}}, {{end}}own.{{.Variable}}{{end}}
    FROM {{range $i, $l := .FetchArrays}}{{if $i}}
    CROSS JOIN {{end}}unnest({{.Argument}}) WITH ORDINALITY AS {{.Elements}} (value, ord){{end}}
    WHERE {{range $i, $l := .FetchArrays}}{{if $i}}
        AND {{end}}array_position({{.Argument}}, {{.Elements}}.value) = {{.Elements}}.ord{{end}};
    {{- else}}{{range .FetchLanes}}
    {{.Variable}} := ARRAY[{{.Element}}];
    {{- end}}{{end}}
    place := array_fill('-infinity'::timestamptz, ARRAY[{{.FetchLaneCount}}]);
    place_id := array_fill(own.nobody, ARRAY[{{.FetchLaneCount}}]);
    {{- if .HasTopics}}
    lanes := '{}';
    lanes_due := '{}';
    lanes_id := '{}';
    {{- end}}

    digest := left(encode(sha256(convert_to(jsonb_build_array('{{.FetchedTable}}'
        {{- range .FetchLanes}}, own.{{.Variable}}{{end}})::text, 'UTF8')), 'hex'), 16);
    IF {{.CursorArgument}} IS NOT NULL THEN
        {{.RefusesCursor .CursorShape}}
        fields := string_to_array({{.CursorArgument}}, ' ');
        IF own.fields[1] = '{{.CursorVersion}}' AND own.fields[2] = own.digest THEN
            {{.RefusesCursor .CursorFields}}
            sweep_at := own.fields[3];
            sweep_took := own.fields[4];
            unswept := own.fields[5];
            turn := own.fields[6];
            FOR s IN
                SELECT u.ord::integer AS ord,
                    CASE split_part(u.text, '/', 1) WHEN '-' THEN '-infinity'
                        ELSE 'epoch'::timestamptz + split_part(u.text, '/', 1)::bigint * interval '1 microsecond'
                    END AS due,
                    split_part(u.text, '/', 2)::uuid AS id,
                    convert_from(decode(split_part(u.text, '/', 3), 'hex'), 'UTF8') AS topic
                FROM unnest(own.fields[7:]) WITH ORDINALITY AS u (text, ord)
            LOOP
                {{- if .HasTopics}}
                IF own.s.topic <> '' THEN
                    lanes := own.lanes || own.s.topic;
                    lanes_due := own.lanes_due || own.s.due;
                    lanes_id := own.lanes_id || own.s.id;
                    CONTINUE;
                END IF;
                {{- end}}
                place[own.s.ord] := own.s.due;
                place_id[own.s.ord] := own.s.id;
            END LOOP;
        END IF;
    END IF;
    clock := extract(epoch FROM own.began) * 1000000;
    is_sweep := coalesce({{.SweepArgument}}, own.clock >= own.sweep_at OR own.sweep_at > own.clock + {{.MaxSweep}});
    IF {{.HeardArgument}} IS NOT NULL THEN
        SELECT 'epoch'::timestamptz + min(substring(h.payload FROM '^(?:fold:)?([0-9]{1,16})$')::bigint)
                * interval '1 microsecond',
            bool_or(starts_with(h.payload, 'front:')){{if .HasTopics}},
            own.is_sweep OR coalesce(bool_or(h.payload = '{{.TopicPayload}}'), false){{end}}
        INTO own.heard_at, own.fronts{{if .HasTopics}}, own.is_sweep{{end}}
        FROM unnest({{.HeardArgument}}) AS h (payload);
        FOR i IN 1..cardinality(own.place) LOOP
            IF own.heard_at <= own.place[i] THEN
                place[i] := own.heard_at;
                place_id[i] := own.nobody;
            END IF;
        END LOOP;
    END IF;
    IF own.fronts THEN
        BEGIN
            FOR s IN
                SELECT l.ord::integer AS ord, min((substr(h.payload, 7)::jsonb ->> {{.FetchLabel}})::timestamptz) AS due
                FROM unnest({{range .FetchLanes}}own.{{.Variable}}, {{end}}own.place) WITH ORDINALITY
                    AS l ({{range .FetchLanes}}{{.Alias}}, {{end}}place, ord)
                CROSS JOIN unnest({{.HeardArgument}}) AS h (payload)
                WHERE starts_with(h.payload, 'front:')
                GROUP BY l.ord
            LOOP
                IF own.s.due <= own.place[own.s.ord] THEN
                    place[own.s.ord] := own.s.due;
                    place_id[own.s.ord] := own.nobody;
                END IF;
            END LOOP;
        EXCEPTION WHEN data_exception THEN
            is_sweep := true; -- every login may send anything
        END;
    END IF;
    reached := own.place;
    reached_id := own.place_id;
    IF own.is_sweep THEN
        reached := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.place)]);
        reached_id := array_fill(own.nobody, ARRAY[cardinality(own.place)]);
    END IF;
    {{- if .FetchArrays}}

    turn := (own.turn + 1) % 1000000;
    IF own.turn % {{.FairEvery}} = 0 AND cardinality(own.place) > 1 THEN
        lead := cardinality(own.place) - own.turn / {{.FairEvery}} % (cardinality(own.place) - 1);
        {{- range .FetchMoved}}
        {{.}} := own.{{.}}[own.lead] || own.{{.}}[:own.lead - 1] || own.{{.}}[own.lead + 1:];
        {{- end}}
    END IF;
    {{- end}}

    {{.FetchIdleBound}}
    {{- if .Admission}}
    SELECT a.admitted, a.again, a.bounded, a.held INTO own.rule
    FROM {{.Function "admit"}}({{.FetchRule}}, $3) AS a;
    batch := least($3, own.rule.admitted);
    is_refused := own.batch < 1;
    {{- end}}
    {{- if .HasTopics}}
    asks := own.is_sweep;
    rooms := array_fill(own.batch, ARRAY[cardinality(own.lanes)]);
    IF own.is_sweep THEN
        lanes := NULL;
    END IF;
{{template "sort_out" .}}
    IF cardinality(own.put_aside) > 0 THEN
        WITH moved AS (
            UPDATE {{.Table}} AS t
            SET waiting = true,
                aside = true
            WHERE t.ctid = ANY (own.put_aside)
            RETURNING {{.TopicOf "t"}} AS topic
        )
        SELECT coalesce(array_agg(DISTINCT m.topic), '{}') INTO own.opened
        FROM moved AS m
        WHERE m.topic <> ALL (own.paused);
    ELSE
        opened := '{}';
    END IF;
    IF NOT own.is_cut THEN
        lanes := '{}';
        lanes_due := '{}';
        lanes_id := '{}';
    ELSE -- each topic has its turn
        lanes := own.lanes[2:] || own.lanes[1];
        lanes_due := own.lanes_due[2:] || own.lanes_due[1];
        lanes_id := own.lanes_id[2:] || own.lanes_id[1];
    END IF;
    FOREACH known IN ARRAY own.opened LOOP
        IF own.known <> ALL (own.lanes) THEN
            lanes := own.known || own.lanes;
            lanes_due := '-infinity'::timestamptz || own.lanes_due;
            lanes_id := own.nobody || own.lanes_id;
        END IF;
    END LOOP;
    is_full := own.is_more OR own.is_cut OR cardinality(own.opened) > 0;
    IF cardinality(own.resting) > 0 THEN
        SELECT min(CASE WHEN p.rests_until > own.began THEN extract(epoch FROM p.rests_until - own.began)
            ELSE {{.ProbeWait}} END)
        INTO own.rest_in
        FROM {{.Function "topic"}} AS p
        WHERE p.unavailable_since IS NOT NULL AND NOT p.paused AND p.topic <> ALL (own.free)
            {{- range .TopicLane}} AND p.{{.Quoted}} = own.topic_lane{{end}};
        resting := ARRAY(SELECT unnest(own.resting) EXCEPT SELECT unnest(own.free));
    END IF;
    got := cardinality(own.taken) + cardinality(own.of_lanes);
    {{- else}}
    {{- if .Admission}}
    IF own.rule.bounded AND NOT own.is_refused THEN
        -- The caller may stay in its transaction, so it must not keep starts and permits without rows. They are let go
        -- by the rollback of a subtransaction, and as many as there are rows are locked anew.
        want := own.batch;
        start := own.reached;
        start_id := own.reached_id;
        LOOP
            BEGIN
                starts := {{.Function "starts"}}({{.FetchRule}}, own.want);
                batch := least(own.want, cardinality(array_remove(own.starts, NULL)));
                permits := {{.Function "permit"}}({{.FetchRule}}, own.batch);
                batch := least(own.batch, cardinality(array_remove(own.permits, NULL)));
{{template "locked" .}}
                EXIT WHEN (greatest(cardinality(own.starts), cardinality(own.permits)) > cardinality(own.ids))
                    IS NOT TRUE;
                RAISE SQLSTATE 'TXP01';
            EXCEPTION WHEN SQLSTATE 'TXP01' THEN
                is_short := own.is_short OR cardinality(own.ids) < own.batch;
                want := cardinality(own.ids);
                taken := '{}';
                ids := '{}';
                reached := own.start;
                reached_id := own.start_id;
            END;
        END LOOP;
        IF own.batch < own.want OR own.batch = 0 AND NOT own.is_short THEN -- others have them
            is_refused := own.batch = 0;
            rule.held := 'busy';
            rule.again := {{.BusyPause}};
        END IF;
    ELSIF NOT own.is_refused THEN
    {{- else}}
    IF NOT own.is_refused THEN
    {{- end}}
{{template "locked" .}}
    END IF;
    got := cardinality(own.taken);
    is_full := own.got >= {{if .Admission}}greatest(own.batch, 1) AND NOT own.is_short{{else}}own.batch{{end}};
    {{- end}}

    IF own.got > 0 THEN
        RETURN QUERY
        WITH changed AS (
{{.Claimed "own.taken" ""}}
        )
        {{- if .HasTopics}}, of_lanes AS (
{{.Claimed "own.of_lanes" ",\n    waiting = false,\n    aside = NULL"}}
        )
        {{- end}}
        SELECT 'row', (row_number() OVER ())::integer, c.id, c.locked_until::timestamptz, c.due_at::timestamptz,
            c.created_at::timestamptz, c.attempts, c.max_attempts, {{.LostTogether "c"}}::integer, c.headers,
            {{- range .FetchedColumns}}
            c.{{.Quoted}}{{if ne .Type ($.Stored .)}}::{{.Type}}{{end}},
            {{- end}}
            NULL::double precision, NULL::boolean, NULL, NULL
        FROM (
            SELECT c.*
            FROM {{if .HasTopics}}(SELECT * FROM changed UNION ALL SELECT * FROM of_lanes){{else}}changed{{end}} AS c
            {{- if .FetchArrays}}
            JOIN unnest({{range $i, $l := .FetchLanes}}{{if $i}}, {{end}}own.{{.Variable}}{{end}}) WITH ORDINALITY
                AS l ({{range .FetchLanes}}{{.Alias}}, {{end}}ord)
                ON {{range $i, $l := .FetchLanes}}{{if $i}} AND {{end}}c.{{.Quoted}} = {{.Lane}}{{end}}
            {{- end}}
            ORDER BY {{if .FetchArrays}}l.ord, {{end}}c.due_at, c.id) AS c;
        GET DIAGNOSTICS returned = ROW_COUNT;
        IF own.returned <> own.got THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = format('%s of %s rows were not claimed', own.got - own.returned, own.got),
                HINT = 'A trigger of the table suppresses updates: it has to let claims pass.';
        END IF;
        {{- if .Admission}}
        IF own.rule.bounded THEN
            PERFORM {{.Function "take"}}({{.FetchRule}}, $1, own.ids, own.permits, own.starts);
        END IF;
        {{- end}}
    END IF;

    FOR i IN 1..cardinality(own.place) LOOP
        IF own.reached[i] <> '-infinity' THEN
            place[i] := own.reached[i];
            place_id[i] := own.reached_id[i];
        END IF;
    END LOOP;
    {{- if .FetchArrays}}
    IF own.lead > 1 THEN
        place := own.place[2:own.lead] || own.place[1] || own.place[own.lead + 1:];
        place_id := own.place_id[2:own.lead] || own.place_id[1] || own.place_id[own.lead + 1:];
    END IF;
    {{- end}}
    IF NOT own.is_refused THEN
        unswept := (NOT own.is_sweep OR own.is_full)::integer;
    END IF;
    result.entry := 'end';
    result.more := own.is_full AND NOT own.is_refused;
    {{- if .Admission}}
    IF own.rule.held IS NOT NULL THEN
        result.held := own.rule.held;
        result.more := false;
    END IF;
    {{- end}}
    {{- if .HasTopics}}
    IF NOT own.is_full AND cardinality(own.paused) > 0 THEN
        result.held := CASE WHEN cardinality(own.paused) > cardinality(own.resting) THEN 'paused'
            ELSE 'unavailable' END;
    END IF;
    {{- end}}
    IF NOT own.is_refused AND NOT own.result.more THEN
        SELECT d.seconds INTO own.due_in
        FROM (
{{.FetchNextDue}}) AS d;
    END IF;

    clock := extract(epoch FROM clock_timestamp()) * 1000000;
    IF own.is_sweep AND NOT own.is_refused THEN -- one may be slow by accident, so the quicker of two counts
        took := own.clock - extract(epoch FROM own.began) * 1000000;
        sweep_at := own.clock
            + least(greatest({{.SweepShare}} * least(own.took, own.sweep_took), {{.MinSweep}}), {{.MaxSweep}});
        sweep_took := own.took;
    END IF;
    -- While a limit holds jobs back, a settle of another process announces nothing.
    result.again_in := 0;
    IF NOT own.result.more THEN
        result.again_in := least({{.LongestWait}}, CASE WHEN own.due_in IS NOT NULL THEN greatest(own.due_in, 0) END,
            CASE WHEN own.unswept = 1 AND NOT own.is_refused
                THEN greatest((own.sweep_at - own.clock) / 1000000.0, {{.SweepPause}}) END
            {{- if .HasTopics}},
            own.rest_in{{end}}
            {{- if .Admission}},
            CASE WHEN own.rule.again > 0 THEN own.rule.again WHEN own.rule.held = 'limit' THEN 1 END{{end}});
    END IF;
    result.cursor := concat_ws(' ', '{{.CursorVersion}}', own.digest, own.sweep_at, own.sweep_took, own.unswept,
        own.turn, (
        SELECT string_agg({{.CursorPlace}}, ' ' ORDER BY u.ord)
        FROM unnest(own.place, own.place_id) WITH ORDINALITY AS u (due, id, ord))
        {{- if .HasTopics}}, (
        SELECT string_agg(w.text, ' ' ORDER BY w.ord)
        FROM (
            SELECT t.text, t.ord, sum(length(t.text) + 1) OVER (ORDER BY t.ord) AS size
            FROM (
                SELECT {{.CursorPlace}} || '/' || encode(convert_to(u.topic, 'UTF8'), 'hex') AS text, u.ord
                FROM unnest(own.lanes, own.lanes_due, own.lanes_id) WITH ORDINALITY
                    AS u (topic, due, id, ord)) AS t) AS w
        WHERE w.size <= {{.MaxCursorTopics}})
        {{- end}});
    RETURN NEXT own.result;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "fetch"}}({{.FetchTypes}}) FROM PUBLIC;
