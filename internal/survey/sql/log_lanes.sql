-- How far the lanes of a log's subscriptions are behind, and at which place. So many messages of the log are looked at
-- as the parameters say, in equal parts, and at most so many of each lane.
SELECT l.subscription, l.lane, l.paused, l.messages, l.more, l.seconds AS oldest, l.behind_seconds AS behind, l.in_hand,
       l.attempts, l.live, l.dead, l.retained, concat_ws(' ', (p.seen).n, p.done, p.owner_token) AS place,
       extract(epoch FROM clock_timestamp() - l.unavailable_since)::float8 AS unavailable,
       extract(epoch FROM l.rests_until - clock_timestamp())::float8 AS probe, l.cause, l.numbers,
       coalesce(extract(epoch FROM s.max_age), 0)::float8 AS max_age, coalesce(s.max_messages, 0) AS max_messages,
       o.lost, o.given_up, o.newest AS given_up_until
FROM {{.Q "_lag"}}((
    SELECT greatest(least($1 / greatest(count(*), 1), $2), 50)::integer FROM {{.Q "_position"}} AS p)) AS l
JOIN {{.Q "_position"}} AS p ON p.subscription = l.subscription AND p.lane = l.lane
JOIN {{.Q "_subscription"}} AS s ON s.name = l.subscription
LEFT JOIN LATERAL (
    SELECT coalesce(sum(o.messages), 0)::bigint AS lost,
           coalesce(sum(o.messages) FILTER (WHERE o.is_recent), 0)::bigint AS given_up,
           max(o.newest) FILTER (WHERE o.is_recent) AS newest
    FROM (
        SELECT o.messages, o.newest, o.why = 'retention' AND o.at > clock_timestamp() - interval '1 day' AS is_recent
        FROM {{.Q "_loss"}} AS o WHERE o.subscription = l.subscription AND o.at >= s.created_at) AS o) AS o ON true
ORDER BY l.subscription, l.lane
