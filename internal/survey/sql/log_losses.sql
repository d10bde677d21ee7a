-- What subscriptions were moved past, the latest first, among at most $1 moves.
SELECT a.subscription, a.lane::integer, a.at, a.messages, a.oldest, a.newest, a.why
FROM (SELECT * FROM {{.Q "_loss"}} ORDER BY subscription, lane, at LIMIT $1::int) AS a
ORDER BY a.at DESC, a.subscription, a.lane
LIMIT $2::int
