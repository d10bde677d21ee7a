{{- /* How claims by topic choose rows, in claim_by_topic and in fetch. They have the claim's arguments in variables,
and sorting declares the other ones. A fetch takes its time from the clock, since now() may be long ago in the caller's
transaction; a worker claims in a transaction of its own, and goes by its start. */ -}}
{{define "sorting"}}began CONSTANT timestamptz := {{if .Fetches}}clock_timestamp(){{else}}now(){{end}};
    paused text[]; -- or they rest
    resting text[];
    ripe text[] := '{}';
    free text[] := '{}'; -- what rested when this call began, and rests no more
    available text[] := '{}'; -- what of these it has opened
    available_since timestamptz[] := '{}';
    probes uuid[] := '{}';
    probing record;
    is_locked boolean;
    probed integer := 0;
    is_hungry boolean := false;
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
    SELECT coalesce(array_agg(p.topic), '{}'),
        coalesce(array_agg(p.topic) FILTER (WHERE p.unavailable_since IS NOT NULL), '{}'),
        coalesce(array_agg(p.topic ORDER BY p.rests_until)
            FILTER (WHERE p.unavailable_since IS NOT NULL AND NOT p.paused
                AND (p.probe IS NOT NULL OR {{.RestIsOver "p" "own.began"}})), '{}')
    INTO own.paused, own.resting, own.ripe
    FROM {{.Function "topic"}} AS p
    WHERE (p.paused OR p.unavailable_since IS NOT NULL)
        {{- range .TopicLane}} AND p.{{.Quoted}} = own.topic_lane{{end}};

    -- These topics have a probe, or their rest is over. What the last probe has found out is read from its row. If that
    -- says nothing, the first row of the topic is the next probe as soon as the rest is over, which begins anew with
    -- each probe. Who locks the topic writes it down. Others do not wait: they go by what the row says.
    FOREACH next IN ARRAY own.ripe LOOP
        SELECT p.unavailable_since, p.rests_until, p.probe, p.probe_token, p.probe_attempt,
            {{.RestIsOver "p" "own.began"}} AS is_over, {{template "found_out" .}} AS state
        INTO own.probing
        FROM {{.Function "topic"}} AS p
        WHERE {{range .TopicLane}}p.{{.Quoted}} = own.topic_lane AND {{end}}p.topic = own.next;
        CONTINUE WHEN own.probing.state IS NULL OR own.probing.state = 'runs'
            OR own.probing.state = 'none'
                AND (own.probing.is_over IS NOT TRUE OR cardinality(own.probes) = own.batch);
        IF own.probing.state = 'none' AND NOT EXISTS (
            SELECT FROM {{.Table}} AS r
            WHERE {{.MayProbe "r"}}) THEN
            is_hungry := true; -- the next claim has what this one sets aside
            CONTINUE; -- and no row of the topic is locked for nothing
        END IF;
        PERFORM FROM {{.Function "topic"}} AS p
        WHERE {{range .TopicLane}}p.{{.Quoted}} = own.topic_lane AND {{end}}p.topic = own.next
          AND p.unavailable_since = own.probing.unavailable_since AND p.rests_until = own.probing.rests_until
          AND NOT p.paused AND p.probe_token IS NOT DISTINCT FROM own.probing.probe_token
        FOR NO KEY UPDATE SKIP LOCKED;
        is_locked := FOUND;
        IF own.probing.state = 'ended' THEN
            IF own.is_locked THEN
                UPDATE {{.Function "topic"}} AS p
                SET unavailable_since = NULL, rests_until = NULL, rest = NULL, cause = NULL, probe = NULL,
                    probe_token = NULL, probe_attempt = NULL
                WHERE {{range .TopicLane}}p.{{.Quoted}} = own.topic_lane AND {{end}}p.topic = own.next;
                available := own.available || own.next;
                available_since := own.available_since || own.probing.unavailable_since::timestamptz;
            ELSIF {{.HidesTopics}} THEN
                CONTINUE; -- the row of the probe may only be hidden
            END IF;
            paused := array_remove(own.paused, own.next);
            free := own.free || own.next;
            IF own.lanes IS NOT NULL AND own.next <> ALL (own.lanes || own.busy) THEN -- others look below
                lanes := own.lanes || own.next;
                lanes_due := own.lanes_due || '-infinity'::timestamptz;
                lanes_id := own.lanes_id || '00000000-0000-0000-0000-000000000000'::uuid;
                rooms := own.rooms || own.batch;
            END IF;
            CONTINUE;
        END IF;
        CONTINUE WHEN NOT own.is_locked;
        SELECT r.ctid, r.id, r.attempts + 1 AS attempt INTO own.probing
        FROM {{.Table}} AS r
        WHERE {{.MayProbe "r"}}
        ORDER BY {{.AsideOrder "r"}}
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            is_hungry := true;
            CONTINUE;
        END IF;
        of_lanes := own.of_lanes || own.probing.ctid;
        probes := own.probes || own.probing.id;
        UPDATE {{.Function "topic"}} AS p
        SET probe = own.probing.id, probe_token = $1, probe_attempt = own.probing.attempt,
            rests_until = {{.RestEnd "p.first_rest"}}
        WHERE {{range .TopicLane}}p.{{.Quoted}} = own.topic_lane AND {{end}}p.topic = own.next;
    END LOOP;
    probed := cardinality(own.of_lanes);

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
        reserved := floor((own.batch - own.probed) / 2.0 + random()) + own.probed;
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
        want := own.batch - own.probed - cardinality(own.taken);
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
            is_cut := cardinality(own.of_lanes) = own.probed + own.want;
        END IF;
    END LOOP;
    IF own.is_hungry AND cardinality(own.put_aside) > 0 THEN
        is_more := true;
    END IF;
{{- end}}

{{- /* What the probe of the topic p has found out: nothing (none) if there is none, or if its lease has ended, it was
put back or cancelled, or others have claimed it since. */ -}}
{{- define "found_out" -}}
CASE WHEN p.probe IS NULL THEN 'none' ELSE coalesce((
                SELECT CASE
                    WHEN r.owner_token IS DISTINCT FROM p.probe_token THEN 'none'
                    WHEN r.status = 2 OR r.status = 3 AND r.cancelled_at IS NULL THEN 'ended'
                    WHEN r.status = 1 AND r.locked_until > clock_timestamp() THEN 'runs'
                    WHEN r.status = 0 AND r.attempts >= p.probe_attempt THEN 'ended'
                    ELSE 'none' END
                FROM {{.Table}} AS r
                WHERE r.id = p.probe), 'ended') END
{{- end}}
