-- Topics of {{.Table}}: an operator may pause one, and a worker may have no room for more rows of one. A claim does not
-- pass over such rows, since the next claim would have to pass over them again. It sets them *aside*: they wait outside
-- the claim index, where each topic is a lane of its own, in the order of their due times. Claims take the rows of a
-- topic from its lane when the topic is resumed or has room. No row is moved back, so a resume costs one row.
--
-- While a topic has rows aside, its new rows queue up behind these.

-- The state of topics. A topic without a row here is not paused.
CREATE TABLE {{.Function "topic"}} (
    {{- range .TopicLane}}
    {{.Quoted}} {{$.Stored .}} NOT NULL,
    {{- end}}
    topic text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND {{.MaxTopic}}),
    paused boolean NOT NULL DEFAULT false,
    changed_at {{.Function "time"}} NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY ({{range .TopicLane}}{{.Quoted}}, {{end}}topic)
);

-- Claims look here, mostly in vain: the index of no rows is one page.
CREATE INDEX {{.Named "topic_paused_idx"}} ON {{.Function "topic"}} ({{range .TopicLane}}{{.Quoted}}, {{end}}topic)
    WHERE paused;

-- The lanes of the rows that are set aside.
CREATE INDEX {{.Named "aside_idx"}} ON {{.Table}}
    ({{range .TopicLane}}{{.Quoted}}, {{end}}({{.TopicOf ""}}), due_at, id)
    WHERE completed_at IS NULL AND aside;

-- A topic whose state has changed has workers look at once.
CREATE FUNCTION {{.Function "topic_changed"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM pg_catalog.pg_notify({{.Channel}}, '{{.TopicPayload}}');
    RETURN NULL;
END
$txwork$;

CREATE TRIGGER {{.Named "topic_changed"}} AFTER INSERT OR UPDATE OR DELETE ON {{.Function "topic"}}
FOR EACH STATEMENT EXECUTE FUNCTION {{.Function "topic_changed"}}();

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
--     0  once: n is how many topics are paused, and lane is 1 if the claim may have left rows that it could have
--        taken, and 2 if so in the lanes of topics
--     1  a row that it claimed
--     2  a row that it claimed from the lane of a topic, with its place there
--     3  in which lane of the arguments, by its number, it has come to which place
--     4  if it asks: a topic that is not paused and has rows aside
--     5  a topic that is not paused, and how many of its rows were set aside
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

    IF own.asks THEN
        RETURN QUERY
        SELECT 4::smallint, u.topic, NULL::integer, NULL::integer, NULL::timestamptz, NULL::uuid, NULL::{{.Table}}
        FROM unnest(own.opened) AS u (topic);
    END IF;
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
        SELECT 2::smallint, {{.TopicOf "(c.claimed)"}}, NULL::integer, NULL::integer, (c.claimed).due_at::timestamptz,
            (c.claimed).id, c.claimed
        FROM changed AS c;
    END IF;
    RETURN QUERY
    SELECT 3::smallint, NULL::text, NULL::integer, u.ord::integer, u.due, u.id, NULL::{{.Table}}
    FROM unnest(own.reached, own.reached_id) WITH ORDINALITY AS u (due, id, ord)
    WHERE (u.due, u.id) <> (($4)[u.ord::integer], ($5)[u.ord::integer]);
    RETURN QUERY
    SELECT 0::smallint, NULL::text, cardinality(own.paused),
        CASE WHEN own.is_cut THEN 2 WHEN own.is_more THEN 1 ELSE 0 END, NULL::timestamptz, NULL::uuid, NULL::{{.Table}};
END
$txwork$;

-- The topics that are paused or have rows aside, with how many rows, and how long the first of them has been due. Of
-- all topics together at most $1 rows are counted, of each an equal part of that and one at least; more says that a
-- topic may have more. At most $1 topics that are paused and $1 that have rows aside are named. Those with rows aside
-- are found by one step of their index for each.
CREATE FUNCTION {{.Function "topics"}}(most integer DEFAULT 10000) RETURNS TABLE (
    lane text, topic text, paused boolean, changed_at timestamptz, aside bigint, more boolean,
    oldest_seconds double precision
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
        (SELECT {{.LaneOf "p"}}, p.topic FROM {{.Function "topic"}} AS p WHERE p.paused LIMIT $1)
    ), part AS (
        SELECT greatest($1 / greatest(count(*), 1), 1) AS most FROM known
    )
    SELECT k.lane, k.topic, coalesce(s.paused, false), s.changed_at::timestamptz, a.aside, a.aside >= part.most,
        coalesce(extract(epoch FROM now() - a.due_at), 0)::double precision
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
