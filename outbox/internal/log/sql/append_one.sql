-- Writes a message whose writers take no turns. Numbers, time and slot are drawn by the row.
INSERT INTO {{.Log}} (id, topic, key, headers, payload)
VALUES ($1::uuid, $2::text, nullif($3::text, ''), $4::text::jsonb, $5::bytea)
