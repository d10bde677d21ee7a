{{- /* How claims by topic choose rows, in claim_by_topic and in fetch. They have the claim's arguments in variables,
and sorting declares the other ones. A fetch takes its time from the clock, since now() may be long ago in the caller's
transaction; a worker claims in a transaction of its own, and goes by its start. */ -}}
{{define "sorting"}}began CONSTANT timestamptz := {{if .Fetches}}clock_timestamp(){{else}}now(){{end}};
    paused text[];
    held text[];
    opened text[] := '{}';
    next text;
    reserved integer := 0;
    want integer;
    looked integer;
    is_more boolean := true;
    is_cut boolean := false;
    most integer := {{.MaxAside}};
    s record;
    taken tid[] := '{}';
    of_lanes tid[] := '{}';
    put_aside tid[] := '{}';{{end}}

{{- define "sort_out"}}
    SELECT coalesce(array_agg(p.topic), '{}') INTO own.paused
    FROM {{.Function "topic"}} AS p
    WHERE p.paused{{range .TopicLane}} AND p.{{.Quoted}} = own.topic_lane{{end}};

    IF own.asks OR own.lanes IS NULL THEN
        SELECT {{.TopicOf "r"}} INTO own.next
        FROM {{.Table}} AS r
        WHERE {{.IsAside "r"}}
        ORDER BY {{.AsideOrder "r"}}
        LIMIT 1;
        WHILE own.next IS NOT NULL LOOP
            IF own.next <> ALL (own.paused) THEN
                opened := own.opened || own.next;
            END IF;
            SELECT {{.TopicOf "r"}} INTO own.next
            FROM {{.Table}} AS r
            WHERE {{.IsAside "r"}} AND {{.TopicOf "r"}} > own.next
            ORDER BY {{.AsideOrder "r"}}
            LIMIT 1;
        END LOOP;
        IF own.lanes IS NULL THEN
            lanes := own.opened;
            lanes_due := array_fill('-infinity'::timestamptz, ARRAY[cardinality(own.opened)]);
            lanes_id := array_fill('00000000-0000-0000-0000-000000000000'::uuid, ARRAY[cardinality(own.opened)]);
            rooms := array_fill(own.batch, ARRAY[cardinality(own.opened)]);
            IF own.asks IS NOT TRUE THEN
                most := 10 * own.most; -- for such a caller, no row means that there is none
            END IF;
        END IF;
    END IF;
    held := own.paused || own.busy || own.lanes;

    IF cardinality(own.lanes) > 0 THEN
        reserved := floor(own.batch / 2.0 + random());
    END IF;
    FOR pass IN 1..2 LOOP
        LOOP
            want := own.batch - cardinality(own.taken) - greatest(own.reserved, cardinality(own.of_lanes));
            EXIT WHEN own.want < 1 OR NOT own.is_more OR cardinality(own.put_aside) >= own.most;
            looked := 0;
            FOR s IN
{{.Candidates}}
            LOOP
                looked := own.looked + 1;
                reached[own.s.ord] := own.s.due_at;
                reached_id[own.s.ord] := own.s.id;
                IF own.s.held THEN
                    put_aside := own.put_aside || own.s.ctid;
                ELSE
                    taken := own.taken || own.s.ctid;
                END IF;
            END LOOP;
            is_more := own.looked = own.want;
        END LOOP;
        EXIT WHEN pass = 2 OR cardinality(own.lanes) = 0;
        reserved := 0;
        want := own.batch - cardinality(own.taken);
        IF own.want > 0 THEN
            FOR s IN
                SELECT c.ctid, l.ord::integer AS ord, c.due_at, c.id
                FROM unnest(own.lanes, own.lanes_due, own.lanes_id, own.rooms)
                    WITH ORDINALITY AS l (topic, after_due, after_id, room, ord)
                CROSS JOIN LATERAL (
                    SELECT r.ctid, r.due_at, r.id
                    FROM {{.Table}} AS r
                    WHERE {{.IsAside "r"}}
                      AND {{.TopicOf "r"}} = l.topic
                      AND (r.due_at, r.id) > (l.after_due, l.after_id)
                      AND r.due_at <= own.began
                    ORDER BY {{.AsideOrder "r"}}
                    LIMIT least(l.room, own.want)
                    FOR NO KEY UPDATE SKIP LOCKED) AS c
                WHERE l.topic <> ALL (own.paused) AND l.room > 0
                LIMIT own.want
            LOOP
                of_lanes := own.of_lanes || own.s.ctid;
                lanes_due[own.s.ord] := own.s.due_at;
                lanes_id[own.s.ord] := own.s.id;
            END LOOP;
            is_cut := cardinality(own.of_lanes) = own.want;
        END IF;
    END LOOP;
{{- end}}
