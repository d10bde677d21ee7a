-- What lives, and what is beside the rows.
INSERT INTO txwork.jobs (id, due_at, created_at, priority, attempts, status, waiting, locked_until, owner_token,
    last_error, kind, queue, args, joined, concurrency_key, key_limit, key_policy, key_seq)
SELECT fill.id(ms, 'live jobs', n), due, at, 1 + n % 3, CASE WHEN locked IS NULL THEN n % 7 / 6 ELSE 1 END,
    (locked IS NOT NULL)::int, waiting, locked, CASE WHEN locked IS NOT NULL THEN fill.owner(n) END,
    CASE WHEN n % 7 = 6 THEN fill.error(n) END, 'kind-' || fill.pick(n, 60), 'queue-' || fill.pick(n / 7, 20),
    fill.payload(n), CASE WHEN n % 200 = 50 THEN true END, key, CASE WHEN key IS NOT NULL THEN 0 END,
    CASE WHEN key IS NOT NULL THEN 1 END, CASE WHEN key IS NOT NULL THEN 1000000000 + n END
FROM fill.live($keys, $keys / 5);
INSERT INTO txwork.outbox (id, due_at, created_at, attempts, status, waiting, locked_until, owner_token, last_error,
    topic, key, payload, concurrency_key, key_limit, key_policy, key_seq)
SELECT fill.id(ms, 'live outbox', n), due, at, CASE WHEN locked IS NULL THEN n % 7 / 6 ELSE 1 END,
    (locked IS NOT NULL)::int, waiting, locked, CASE WHEN locked IS NOT NULL THEN fill.owner(n) END,
    CASE WHEN n % 7 = 6 THEN fill.error(n) END, 'topic-' || fill.pick(n, 40), key, fill.payload(n), key,
    CASE WHEN key IS NOT NULL THEN 0 END, CASE WHEN key IS NOT NULL THEN 1 END,
    CASE WHEN key IS NOT NULL THEN 1000000000 + n END
FROM fill.live($keys, $keys / 5);
INSERT INTO txwork.inbox (id, due_at, created_at, attempts, status, locked_until, owner_token, last_error, consumer,
    source, message_id, payload)
SELECT fill.id(ms, 'live inbox', n), due, at, CASE WHEN locked IS NULL THEN n % 7 / 6 ELSE 1 END,
    (locked IS NOT NULL)::int, locked, CASE WHEN locked IS NOT NULL THEN fill.owner(n) END,
    CASE WHEN n % 7 = 6 THEN fill.error(n) END, 'consumer-' || fill.pick(n, 20), 'source-' || fill.pick(n / 11, 50),
    'live-' || n, fill.payload(n)
FROM fill.live(0, $keys / 2);
INSERT INTO txwork.timers (id, due_at, created_at, attempts, status, locked_until, owner_token, last_error, fire_at,
    generation, key, topic, payload)
SELECT fill.id(ms, 'live timers', n), due, at, CASE WHEN locked IS NULL THEN n % 7 / 6 ELSE 1 END,
    (locked IS NOT NULL)::int, locked, CASE WHEN locked IS NOT NULL THEN fill.owner(n) END,
    CASE WHEN n % 7 = 6 THEN fill.error(n) END, due, 1, 'live-' || n, 'topic-' || fill.pick(n, 40), fill.payload(n)
FROM fill.live(0, $keys / 2);

-- A key with many rows behind it, and topics whose rows are set aside.
INSERT INTO txwork.jobs (id, priority, waiting, kind, queue, args, concurrency_key, key_limit, key_policy, key_seq)
SELECT fill.id($millisecond, 'long key', n), 2, n > 1, 'kind-0', 'queue-0', fill.payload(n), 'largest', 0, 1, n
FROM generate_series(1, 5000) AS n;
INSERT INTO txwork.outbox (id, waiting, aside, topic, payload)
SELECT fill.id($millisecond, 'aside', n), true, true, 'topic-' || n % 3, fill.payload(n)
FROM generate_series(1, 3000) AS n;
INSERT INTO txwork.outbox_topic (topic, paused) SELECT 'topic-' || n, true FROM generate_series(0, 2) AS n;
INSERT INTO txwork.jobs_queue (name, paused, max_running)
SELECT 'queue-' || n, n = 3, 10 * n FROM generate_series(1, 19) AS n;
INSERT INTO txwork.jobs_attempt (job_id, attempt, ended_at, outcome, error)
SELECT id, a, failed_at - (3 - a) * interval '1 minute', CASE WHEN a = 3 THEN 'dead' ELSE 'retry' END, last_error
FROM txwork.jobs, generate_series(1, 3) AS a WHERE status = 3 AND cancelled_at IS NULL;

-- Joins of ten jobs. Every fortieth is pending, since one of its members lives, and a job waits for it.
INSERT INTO txwork.jobs_join (id, status, expected, succeeded, label, on_complete, created_at, completed_at, retention)
SELECT fill.id(ms, 'join', n), CASE WHEN n % 40 = 0 THEN 0 ELSE 1 END, 10, CASE WHEN n % 40 = 0 THEN 9 ELSE 10 END,
    'batch ' || n % 50, CASE WHEN n % 40 = 0 THEN fill.id(ms, 'joined', n) END, at,
    CASE WHEN n % 40 <> 0 THEN at + interval '1 minute' END, '7 days'
FROM generate_series(1, $joins) AS n, LATERAL (SELECT $millisecond - n * 604800000::bigint / $joins AS ms) AS x,
    LATERAL (SELECT to_timestamp(ms / 1000.0) AS at) AS y;
INSERT INTO txwork.jobs_join_member (member_id, join_id, outcome)
SELECT CASE WHEN n % 40 = 0 AND m = 10 THEN fill.id($millisecond - 50000, 'live jobs', 50)
    ELSE fill.id($millisecond - ($rows - i + 2) * 604800000::bigint / $rows, 'jobs', i) END,
    fill.id($millisecond - n * 604800000::bigint / $joins, 'join', n),
    CASE WHEN n % 40 = 0 AND m = 10 THEN NULL ELSE 1 END
FROM generate_series(1, $joins) AS n, generate_series(1, 10) AS m, LATERAL (SELECT 10 * (n - 1) + m AS i) AS x;
INSERT INTO txwork.jobs (id, created_at, priority, waiting, kind, queue, args)
SELECT on_complete, created_at, 2, true, 'kind-1', 'queue-1', fill.payload(1) FROM txwork.jobs_join
WHERE on_complete IS NOT NULL;

-- The history of 25 lanes a table: minutes of two days, and hours of 90.
INSERT INTO txwork.history (table_name, lane, step, at, done, retried, dead, enqueued, waits, runs)
SELECT t.name, l.lane, s.step,
    date_bin(s.step * interval '1 second', now(), 'epoch') - m * s.step * interval '1 second',
    n, n / 20, n / 60, CASE WHEN l.lane = '' THEN n END, array_fill(0::bigint, ARRAY[10]) || ARRAY[n / 4, n / 2, n / 4],
    array_fill(0::bigint, ARRAY[12]) || ARRAY[n / 3, n / 3, n / 4, n / 12]
FROM (VALUES ('jobs', 'queue-'), ('outbox', 'topic-'), ('inbox', 'consumer-'), ('timers', 'topic-')) AS t (name, lanes),
    LATERAL (SELECT '' AS lane UNION ALL SELECT t.lanes || i FROM generate_series(0, 24) AS i) AS l,
    (VALUES (60, 2880), (3600, 2160)) AS s (step, steps), generate_series(1, s.steps) AS m,
    LATERAL (SELECT s.step * (1 + m % 7) AS n) AS x;
INSERT INTO txwork.audit (at, who, origin, action, event, verb, target, about, rows)
SELECT at, 'operator-' || n % 9, '10.0.0.' || n % 200, fill.id($millisecond, 'audit', n), 'done',
    (ARRAY['redrive', 'pause', 'resume', 'discard'])[1 + n % 4],
    (ARRAY['jobs', 'outbox', 'inbox', 'timers'])[1 + n % 4],
    '{"id": "x"}', 1
FROM generate_series(1, 20000) AS n, LATERAL (SELECT now() - (20000 - n) * interval '5 minutes' AS at) AS x;
INSERT INTO txwork.process (id, host, language, version, serves, beat_at)
SELECT $millisecond + n, 'host-' || n, 'go', '1.0.0',
    '[{"table": "jobs", "lanes": {"queue": ["queue-0", "queue-1"]}, "concurrency": 20}]', clock_timestamp()
FROM generate_series(0, 19) AS n;
