-- Writes a message under the lock of its key's writers, in one round trip: the row is made of what has the lock, so its
-- number is drawn under it. It stores none if messages of the key are scheduled: then it goes behind them. It is no
-- call of the function append, which refuses payloads beyond the default limit, whatever the options of the outbox say,
-- and of which the server would count one row even if the table took none.
WITH turn AS MATERIALIZED (
    SELECT {{.Named "turn"}}($3::text) AS behind
)
INSERT INTO {{.Log}} (id, topic, key, headers, payload)
SELECT $1::uuid, $2::text, $3::text, $4::text::jsonb, $5::bytea
FROM turn AS t
WHERE t.behind IS NULL
