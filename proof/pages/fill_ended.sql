-- Rows $first to $last of those that have ended.
INSERT INTO txwork.jobs (id, due_at, created_at, priority, attempts, status, completed_at, owner_token, failed_at,
    cancelled_at, last_error, headers, kind, queue, args, joined, concurrency_key, key_limit, key_policy, key_seq)
SELECT fill.id(ms, 'jobs', n), at, at, 1 + n % 3, 1, CASE WHEN failed IS NULL THEN 2 ELSE 3 END, done,
    fill.owner(n), failed, cancelled, CASE WHEN failed IS NOT NULL THEN fill.error(n) END,
    CASE WHEN n % 10 = 0 THEN jsonb_build_object('traceparent', '00-' || md5(n::text) || '-00f067aa0ba902b7-01') END,
    'kind-' || fill.pick(n, 60), 'queue-' || fill.pick(n / 7, 20), fill.payload(n),
    CASE WHEN n <= 10 * $joins THEN true END,
    key, CASE WHEN key IS NOT NULL THEN 0 END, CASE WHEN key IS NOT NULL THEN (n % 30 = 0)::int END,
    CASE WHEN key IS NOT NULL THEN n END
FROM fill.ended($first, $last, $rows, $keys);
INSERT INTO txwork.outbox (id, due_at, created_at, attempts, status, completed_at, owner_token, failed_at, cancelled_at,
    last_error, topic, key, payload, dedup_key, concurrency_key, key_limit, key_policy, key_seq)
SELECT fill.id(ms, 'outbox', n), at, at, 1, CASE WHEN failed IS NULL THEN 2 ELSE 3 END, done,
    fill.owner(n), failed, cancelled, CASE WHEN failed IS NOT NULL THEN fill.error(n) END,
    'topic-' || fill.pick(n, 40), key, fill.payload(n), CASE WHEN n % 5 = 0 THEN 'order-' || n END,
    key, CASE WHEN key IS NOT NULL THEN 0 END, CASE WHEN key IS NOT NULL THEN (n % 30 = 0)::int END,
    CASE WHEN key IS NOT NULL THEN n END
FROM fill.ended($first, $last, $rows, $keys);
INSERT INTO txwork.inbox (id, due_at, created_at, attempts, status, completed_at, owner_token, failed_at, cancelled_at,
    last_error, consumer, source, message_id, topic, payload)
SELECT fill.id(ms, 'inbox', n), at, at, 1, CASE WHEN failed IS NULL THEN 2 ELSE 3 END, done,
    fill.owner(n), failed, cancelled, CASE WHEN failed IS NOT NULL THEN fill.error(n) END,
    'consumer-' || fill.pick(n, 20), 'source-' || fill.pick(n / 11, 50), 'message-' || n,
    CASE WHEN n % 2 = 0 THEN 'topic-' || fill.pick(n, 40) END, fill.payload(n)
FROM fill.ended($first, $last, $rows, $keys);
INSERT INTO txwork.timers (id, due_at, created_at, attempts, status, completed_at, owner_token, failed_at, cancelled_at,
    last_error, fire_at, generation, key, topic, payload)
SELECT fill.id(ms, 'timers', n), at, at, 1, CASE WHEN failed IS NULL THEN 2 ELSE 3 END, done,
    fill.owner(n), failed, cancelled, CASE WHEN failed IS NOT NULL THEN fill.error(n) END,
    at, 1, 'timer-' || n, 'topic-' || fill.pick(n, 40), fill.payload(n)
FROM fill.ended($first, $last, $rows, $keys);
