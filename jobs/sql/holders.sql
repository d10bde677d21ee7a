-- What Replace has to know of the jobs that hold the keys, to encode args for them. Reads only: nothing of it changes
-- for as long as a job is there, but headers that txwork adds.
SELECT t.id, t.kind, coalesce(t.headers, '{}')::text
FROM {{.Table}} AS t
WHERE t.id = ANY ($1::uuid[])
