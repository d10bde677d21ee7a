-- Ready -> InProgress for the rows behind the heads of runs: whoever holds the first row of an ordered key takes the
-- next ones with the same token, in order. A head is a row in progress with its token, and is locked. A token never
-- comes back, so it has been in progress since this statement's snapshot: no fold has released another row of its key
-- meanwhile, and none can before the commit. So two sessions never hold rows of one key.
--
-- The rows are read from the place that folds know of the key, and not from the head's. A head that has come by a join
-- may have a place beyond that of a writer which had not committed: the run would overtake that row. A row before the
-- head ends the run, and so does the first one behind it that is not due, is beyond a dead letter that blocks the key,
-- is cancelled, has lost a lease, may be attempted once only, is in another lane or of another topic, or is locked
-- (SKIP LOCKED). What is not taken waits as before.
--
-- A head has no run if it has lost a lease or may be attempted once only; if its topic is paused or rests; if another
-- row of its key is in progress, such as of a run whose reply was lost; or if row-level security may hide rows of the
-- key. It never waits for a lock.
WITH head AS MATERIALIZED (
    SELECT r.id, r.owner_token, r.concurrency_key AS key, r.key_seq, s.most
        {{- range .Lanes}}, r.{{.Quoted}}{{end}}{{if .HasTopics}}, {{.TopicOf "r"}} AS run_topic{{end}}
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), unnest(@most::int[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, most)
    JOIN {{.Table}} AS r ON r.id = s.id
    WHERE r.id = ANY (@ids::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
      AND r.key_seq IS NOT NULL AND r.key_limit = 0
      AND r.locked_until > clock_timestamp() AND {{template "may_run" "r"}}
      AND NOT ({{.HidesRows}})
      {{- if .HasTopics}}
      AND NOT EXISTS (
        SELECT FROM {{.Function "topic"}} AS k
        WHERE {{range .TopicLane}}k.{{.Quoted}} = r.{{.Quoted}} AND {{end}}k.topic = {{.TopicOf "r"}}
          AND (k.paused OR k.unavailable_since IS NOT NULL))
      {{- end}}
    FOR NO KEY UPDATE OF r SKIP LOCKED
), next AS MATERIALIZED (
    SELECT h.id AS head, h.owner_token, n.ctid, n.key_seq,
        n.key_seq > h.key_seq AND (n.key_seq < o.key_seq) IS NOT FALSE AND n.fits AS fits
    FROM head AS h
    CROSS JOIN LATERAL (
        SELECT coalesce((
            SELECT g.place FROM {{.Function "key_state"}} AS g
            WHERE g.concurrency_key = h.key AND NOT g.limited
            ORDER BY g.concurrency_key DESC, g.limited DESC, g.n DESC
            LIMIT 1), 0) AS place) AS known
    LEFT JOIN LATERAL (
        SELECT true AS is FROM {{.Table}} AS l
        WHERE l.concurrency_key = h.key AND {{.Keys.Live "l"}} AND l.key_limit = 0 AND l.key_seq >= known.place
          AND l.id <> h.id
        LIMIT 1) AS other ON true
    LEFT JOIN LATERAL (
        SELECT f.key_seq FROM {{.Table}} AS f
        WHERE f.concurrency_key = h.key AND {{.Keys.Obstacle "f"}}
        ORDER BY f.concurrency_key, f.key_seq
        LIMIT 1) AS o ON true
    CROSS JOIN LATERAL (
        SELECT w.ctid, w.key_seq, w.status = 0 AND w.due_at <= now() AND {{template "may_run" "w"}}
            {{- range .Lanes}} AND w.{{.Quoted}} = h.{{.Quoted}}{{end}}
            {{- if .HasTopics}} AND {{.TopicOf "w"}} = h.run_topic{{end}} AS fits
        FROM {{.Table}} AS w
        WHERE other.is IS NULL AND w.concurrency_key = h.key AND {{.Keys.OrderedWaits "w"}}
          AND w.key_seq >= known.place
        ORDER BY w.concurrency_key, w.key_seq
        LIMIT h.most) AS n
), locked AS MATERIALIZED (
    SELECT w.ctid, w.key_seq -- which a row may have changed with its key
    FROM {{.Table}} AS w
    WHERE w.ctid = ANY (ARRAY(SELECT n.ctid FROM next AS n WHERE n.fits))
      AND CASE WHEN w.completed_at IS NULL THEN {{.Keys.Wait "w"}} END
      AND w.status = 0 AND {{template "may_run" "w"}}
    FOR NO KEY UPDATE SKIP LOCKED
), run AS MATERIALIZED (
    SELECT p.ctid, p.head, p.owner_token
    FROM (
        SELECT n.ctid, n.head, n.owner_token, -- IN is hashed, where a join might compare each pair
            bool_and(n.fits AND (n.ctid, n.key_seq) IN (SELECT l.ctid, l.key_seq FROM locked AS l)) OVER (
                PARTITION BY n.head ORDER BY n.key_seq) AS taken
        FROM next AS n) AS p
    WHERE p.taken
)
UPDATE {{.Table}} AS t
SET status = 1,
    waiting = false,
    attempts = t.attempts + 1,
    owner_token = run.owner_token,
    locked_until = clock_timestamp() + @lease::interval
FROM run
WHERE t.ctid = run.ctid
RETURNING run.head, t.key_seq, {{template "claimed" .}}
{{- define "may_run"}}{{.}}.cancelled_at IS NULL AND {{.}}.max_attempts > 1
        AND {{.}}.headers ->> 'txwork-lost-at' IS NULL{{end}}
