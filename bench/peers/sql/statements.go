package main

// schema has ids that clients make, and due times, as queues have them. Each page has room for the new row versions
// that claims make, which are wider than the old ones, and the index of live rows contains no column that a claim
// changes. Claims are therefore heap-only updates. An ack removes the row from that index.
const schema = `
CREATE TABLE IF NOT EXISTS job (
    id uuid PRIMARY KEY,
    due_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,
    locked_until timestamptz,
    owner_token uuid,
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    payload bytea NOT NULL
) WITH (fillfactor = 40);
CREATE INDEX IF NOT EXISTS job_live ON job (due_at, id) WHERE done_at IS NULL;`

const (
	insertMany = `INSERT INTO job (id, payload) SELECT * FROM unnest($1::uuid[], $2::bytea[])`

	notify = `SELECT pg_notify('job', '')`

	insertOne = `WITH inserted AS (INSERT INTO job (id, payload) VALUES ($1, $2) RETURNING id)
SELECT pg_notify('job', '') FROM inserted`

	// claim continues after the last row of the previous claim, because the head of the index consists of rows in
	// progress and of dead entries that vacuum has not removed yet. It returns the rows in no particular order.
	claim = `UPDATE job AS j
SET status = 1, attempts = attempts + 1, owner_token = $3, locked_until = clock_timestamp() + interval '30 s'
WHERE j.ctid = ANY (ARRAY(
    SELECT ctid FROM job
    WHERE done_at IS NULL AND status = 0 AND due_at <= now() AND (due_at, id) > ($1, $2)
    ORDER BY due_at, id
    LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED))
RETURNING id, due_at, payload`

	ackRetained = `UPDATE job
SET status = 2, done_at = clock_timestamp(), locked_until = NULL
WHERE id = ANY ($1::uuid[]) AND owner_token = $2 AND status = 1`

	ackDeleted = `DELETE FROM job WHERE id = ANY ($1::uuid[]) AND owner_token = $2 AND status = 1`
)
