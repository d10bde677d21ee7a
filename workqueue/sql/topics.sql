-- Topics of {{.Table}}: an operator may pause one, one may rest because its destination is unavailable, and a worker
-- may have no room for more rows of one. A claim does not pass over such rows, since the next claim would have to pass
-- over them again. It sets them *aside*: they wait outside the claim index, where each topic is a lane of its own, in
-- the order of their due times. Claims take the rows of a topic from its lane when the topic is resumed, opens or has
-- room. No row is moved back, so that costs one row.
--
-- While a topic has rows aside, its new rows queue up behind these.

-- The state of topics. A topic without a row here is not paused, and its destination is not known to be unavailable.
-- While it is, the topic rests for a time. Then one row probes the destination: it is in progress with this token and,
-- by its claim, in this attempt. first_rest and longest_rest may be changed.
CREATE TABLE {{.Function "topic"}} (
    {{- range .TopicLane}}
    {{.Quoted}} {{$.Stored .}} NOT NULL,
    {{- end}}
    topic text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND {{.MaxTopic}}),
    paused boolean NOT NULL DEFAULT false,
    changed_at {{.Function "time"}} NOT NULL DEFAULT clock_timestamp(),
    unavailable_since {{.Function "time"}},
    rests_until {{.Function "time"}},
    rest interval,
    cause text,
    probe uuid,
    probe_token uuid,
    probe_attempt integer,
    first_rest interval NOT NULL DEFAULT {{.FirstRest}} CHECK (first_rest > '0'),
    longest_rest interval NOT NULL DEFAULT {{.LongestRest}} CHECK (longest_rest >= first_rest),
    PRIMARY KEY ({{range .TopicLane}}{{.Quoted}}, {{end}}topic),
    CHECK ((unavailable_since IS NULL) = (rests_until IS NULL))
);

-- Claims look here, mostly in vain: the index of no rows is one page.
CREATE INDEX {{.Named "topic_held_idx"}} ON {{.Function "topic"}} ({{range .TopicLane}}{{.Quoted}}, {{end}}topic)
    WHERE paused OR unavailable_since IS NOT NULL;

-- The lanes of the rows that are set aside.
CREATE INDEX {{.Named "aside_idx"}} ON {{.Table}}
    ({{range .TopicLane}}{{.Quoted}}, {{end}}({{.TopicOf ""}}), due_at, id)
    WHERE completed_at IS NULL AND aside;

-- A topic that is held or free since now has workers look at once. A probe and the next rest are no such change.
CREATE FUNCTION {{.Function "topic_changed"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.paused = OLD.paused AND (NEW.unavailable_since IS NULL) = (OLD.unavailable_since IS NULL) THEN
            RETURN NULL;
        END IF;
    END IF;
    PERFORM {{.Notify .TopicPayload}};
    RETURN NULL;
END
$txwork$;

CREATE TRIGGER {{.Named "topic_changed"}} AFTER INSERT OR UPDATE OR DELETE ON {{.Function "topic"}}
FOR EACH ROW EXECUTE FUNCTION {{.Function "topic_changed"}}();

-- Pauses a topic: no claim that begins later starts a row of it. Returns whether that changed anything. Like resume it
-- is for roles that see all rows, since it concerns the rows of all.
CREATE FUNCTION {{.Function "pause"}}({{range .TopicLane}}{{.Quoted}} {{.Type}}, {{end}}topic text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesAllTopics}}
    {{.ChecksTopic}}
    -- A settle that makes a new topic rest does not wait for this lock, as it would for the row.
    PERFORM pg_advisory_xact_lock({{.TopicLock "$"}});
    INSERT INTO {{.Function "topic"}} AS s ({{range .TopicLane}}{{.Quoted}}, {{end}}topic, paused)
    VALUES ({{range .TopicLane}}$1, {{end}}${{.TopicArgument}}, true)
    ON CONFLICT ({{range .TopicLane}}{{.Quoted}}, {{end}}topic) DO UPDATE
    SET paused = true, changed_at = clock_timestamp()
    WHERE NOT s.paused;
    RETURN FOUND;
END
$txwork$;

-- Ends the pause of a topic. Returns whether it was paused.
CREATE FUNCTION {{.Function "resume"}}({{range .TopicLane}}{{.Quoted}} {{.Type}}, {{end}}topic text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesAllTopics}}
    {{.ChecksTopic}}
    UPDATE {{.Function "topic"}} AS s
    SET paused = false, changed_at = clock_timestamp()
    WHERE {{range .TopicLane}}s.{{.Quoted}} = $1 AND {{end}}s.topic = ${{.TopicArgument}} AND s.paused;
    RETURN FOUND;
END
$txwork$;

-- Ready -> InProgress for rows whose topic may start them; rows of other topics are set aside. busy are topics for
-- whose rows the caller has no room. open are topics that have rows aside, with the place in each lane from which on,
-- and the room for, the rows that the claim may take; if it is NULL, the claim looks for such topics and has room for
-- all. At most half of the rows come from these lanes, unless there are too few others.
--
-- The claim goes on behind rows that it has set aside until it has what it wants, or has set {{.MaxAside}} aside, and
-- ten times as many if open is NULL. It locks only rows that it changes. It returns, by kind:
--
--     0  once: n is how many topics are paused or rest, and lane is 1 if the claim may have left rows that it could
--        have taken, and 2 if so in the lanes of topics
--     1  a row that it claimed
--     2  a row that it claimed from the lane of a topic, with its place there; n is 1 if it probes the destination
--     3  in which lane of the arguments, by its number, it has come to which place
--     4  a topic that is neither paused nor rests and has rows aside: each one if it asks, or else one that this claim
--        has found to be available again
--     5  such a topic, and how many of its rows were set aside
--     6  a topic that rests, and in how many milliseconds a claim may take a probe, unless one is under way then; none
--        if it could take one now, and there is no row for it
--     7  a topic whose destination is available again, which this claim has found out, and since when it was not
CREATE FUNCTION {{.Function "claim_by_topic"}}(
    owner_token uuid, lease interval, batch_size integer, after_due timestamptz[], after_id uuid[]
    {{- range .Lanes}}, {{.Quoted}} {{.Type}}[]{{end}},
    busy text[], open text[], open_due timestamptz[], open_id uuid[], room integer[], asks boolean
) RETURNS TABLE (
    kind smallint, topic text, n integer, lane integer, due_at timestamptz, id uuid, claimed {{.Table}}
)
LANGUAGE plpgsql
{{.FunctionSettings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    batch CONSTANT integer := $3;
    reached timestamptz[] := $4;
    reached_id uuid[] := $5;
    {{- range .TopicLane}}
    topic_lane CONSTANT text := ({{$.TopicLaneArgument}})[1];
    {{- end}}
    busy CONSTANT text[] := ${{.OpenArgument 0}};
    lanes text[] := ${{.OpenArgument 1}};
    lanes_due timestamptz[] := ${{.OpenArgument 2}};
    lanes_id uuid[] := ${{.OpenArgument 3}};
    rooms integer[] := ${{.OpenArgument 4}};
    asks CONSTANT boolean := ${{.OpenArgument 5}};
    {{template "sorting" .}}
BEGIN
    {{.SeesTopics}}
    {{.RefusesClaim}}
    {{- range .TopicLane}}
    {{$.RefusesOthers .Name $.TopicLaneArgument}}
    {{- end}}
{{template "sort_out" .}}

    RETURN QUERY
    SELECT 4::smallint, u.topic, NULL::integer, NULL::integer, NULL::timestamptz, NULL::uuid, NULL::{{.Table}}
    FROM unnest(CASE WHEN own.asks THEN own.opened ELSE own.free END) AS u (topic);
    IF cardinality(own.put_aside) > 0 THEN
        RETURN QUERY
        WITH moved AS (
            UPDATE {{.Table}} AS t
            SET waiting = true,
                aside = true
            WHERE t.ctid = ANY (own.put_aside)
            RETURNING {{.TopicOf "t"}} AS topic
        )
        SELECT 5::smallint, m.topic, count(*)::integer, NULL::integer, NULL::timestamptz, NULL::uuid, NULL::{{.Table}}
        FROM moved AS m
        WHERE m.topic <> ALL (own.paused)
        GROUP BY m.topic;
    END IF;
    IF cardinality(own.taken) > 0 THEN
        RETURN QUERY
        WITH changed AS (
{{.Claimed "own.taken" ""}}
        )
        SELECT 1::smallint, NULL::text, NULL::integer, NULL::integer, NULL::timestamptz, NULL::uuid, c.claimed
        FROM changed AS c;
    END IF;
    IF cardinality(own.of_lanes) > 0 THEN
        RETURN QUERY
        WITH changed AS (
{{.Claimed "own.of_lanes" ",\n    waiting = false,\n    aside = NULL"}}
        )
        SELECT 2::smallint, {{.TopicOf "(c.claimed)"}}, ((c.claimed).id = ANY (own.probes))::integer, NULL::integer,
            (c.claimed).due_at::timestamptz,
            (c.claimed).id, c.claimed
        FROM changed AS c;
    END IF;
    RETURN QUERY
    SELECT 3::smallint, NULL::text, NULL::integer, u.ord::integer, u.due, u.id, NULL::{{.Table}}
    FROM unnest(own.reached, own.reached_id) WITH ORDINALITY AS u (due, id, ord)
    WHERE (u.due, u.id) <> (($4)[u.ord::integer], ($5)[u.ord::integer]);
    IF cardinality(own.resting) > 0 THEN
        RETURN QUERY
        SELECT 6::smallint, p.topic, CASE WHEN p.rests_until > own.began
            THEN ceil(extract(epoch FROM p.rests_until - own.began) * 1000)::integer END, NULL::integer,
            NULL::timestamptz, NULL::uuid, NULL::{{.Table}}
        FROM {{.Function "topic"}} AS p
        WHERE p.unavailable_since IS NOT NULL AND p.topic <> ALL (own.free)
            {{- range .TopicLane}} AND p.{{.Quoted}} = own.topic_lane{{end}};
        RETURN QUERY
        SELECT 7::smallint, u.topic, NULL::integer, NULL::integer, u.since, NULL::uuid, NULL::{{.Table}}
        FROM unnest(own.available, own.available_since) AS u (topic, since);
    END IF;
    RETURN QUERY
    SELECT 0::smallint, NULL::text, cardinality(own.paused),
        CASE WHEN own.is_cut THEN 2 WHEN own.is_more THEN 1 ELSE 0 END, NULL::timestamptz, NULL::uuid, NULL::{{.Table}};
END
$txwork$;

-- The topics that are paused, rest or have rows aside, with how many rows, and how long the first of them has been due.
-- Of all topics together at most $1 rows are counted, of each an equal part of that and one at least; more says that a
-- topic may have more. At most $1 topics that are paused or rest and $1 that have rows aside are named. Those with rows
-- aside are found by one step of their index for each.
CREATE FUNCTION {{.Function "topics"}}(most integer DEFAULT 10000) RETURNS TABLE (
    lane text, topic text, paused boolean, changed_at timestamptz, aside bigint, more boolean,
    oldest_seconds double precision, unavailable_since timestamptz, rests_until timestamptz, cause text
)
LANGUAGE plpgsql STABLE
{{.FunctionSettings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.Bounded "$1" "most"}}
    RETURN QUERY
    WITH RECURSIVE has AS (
        (SELECT 1 AS place, {{.LaneOf "r"}} AS lane, {{.TopicOf "r"}} AS topic
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND r.aside
        ORDER BY {{.AsideOrder "r"}}
        LIMIT 1)
        UNION ALL
        SELECT h.place + 1, n.lane, n.topic
        FROM has AS h
        CROSS JOIN LATERAL (
            SELECT {{.LaneOf "r"}} AS lane, {{.TopicOf "r"}} AS topic
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL AND r.aside
              AND ({{range .TopicLane}}r.{{.Quoted}}, {{end}}{{.TopicOf "r"}})
                  > ({{range .TopicLane}}h.lane, {{end}}h.topic)
            ORDER BY {{.AsideOrder "r"}}
            LIMIT 1) AS n
        WHERE h.place < $1
    ), known AS (
        SELECT has.lane, has.topic FROM has
        UNION
        (SELECT {{.LaneOf "p"}}, p.topic FROM {{.Function "topic"}} AS p
        WHERE p.paused OR p.unavailable_since IS NOT NULL
        LIMIT $1)
    ), part AS (
        SELECT greatest($1 / greatest(count(*), 1), 1) AS most FROM known
    )
    SELECT k.lane, k.topic, coalesce(s.paused, false), s.changed_at::timestamptz, a.aside, a.aside >= part.most,
        coalesce(extract(epoch FROM now() - a.due_at), 0)::double precision, s.unavailable_since::timestamptz,
        s.rests_until::timestamptz, s.cause
    FROM known AS k
    CROSS JOIN part
    LEFT JOIN {{.Function "topic"}} AS s ON {{range .TopicLane}}s.{{.Quoted}} = k.lane AND {{end}}s.topic = k.topic
    CROSS JOIN LATERAL (
        SELECT count(*) AS aside, min(b.due_at) AS due_at
        FROM (
            SELECT r.due_at
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL AND r.aside{{range .TopicLane}} AND r.{{.Quoted}} = k.lane{{end}}
              AND {{.TopicOf "r"}} = k.topic
            ORDER BY {{.AsideOrder "r"}}
            LIMIT part.most) AS b) AS a
    ORDER BY k.lane COLLATE "C", k.topic COLLATE "C";
END
$txwork$;

-- Shows the state of topics to all roles, if the table has row-level security, and lets only those change it that see
-- all rows: a pause concerns the rows of all. Without row-level security it takes that away. For the owner of the
-- tables, who calls it after each change of that.
CREATE FUNCTION {{.Function "topic_policies"}}() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON {{.Function "topic"}};
    IF (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '{{.Table}}'::regclass) THEN
        ALTER TABLE {{.Function "topic"}} ENABLE ROW LEVEL SECURITY;
        CREATE POLICY txwork_read ON {{.Function "topic"}} FOR SELECT USING (true);
    ELSE
        ALTER TABLE {{.Function "topic"}} DISABLE ROW LEVEL SECURITY;
    END IF;
END
$txwork$;
{{range .TopicFunctions}}
REVOKE ALL ON FUNCTION {{$.Function .Name}}({{.Types}}) FROM PUBLIC;
{{- end}}
