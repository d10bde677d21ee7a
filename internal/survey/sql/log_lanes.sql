-- How far the lanes of a log's subscriptions are behind, and at which place. So many messages of the log are looked at
-- as the parameters say, in equal parts, and at most so many of each lane.
SELECT l.subscription, l.lane, l.paused, l.messages, l.more, l.seconds AS oldest, l.behind_seconds AS behind, l.in_hand,
       l.attempts, l.live, l.dead, l.retained, concat_ws(' ', (p.seen).n, p.done, p.owner_token) AS place,
       extract(epoch FROM clock_timestamp() - l.unavailable_since)::float8 AS unavailable,
       extract(epoch FROM l.rests_until - clock_timestamp())::float8 AS probe, l.cause
FROM {{.Q "_lag"}}((
    SELECT greatest(least($1 / greatest(count(*), 1), $2), 50)::integer FROM {{.Q "_position"}} AS p)) AS l
JOIN {{.Q "_position"}} AS p ON p.subscription = l.subscription AND p.lane = l.lane
ORDER BY l.subscription, l.lane
