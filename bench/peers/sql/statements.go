package main

// schema has ids that clients make and jobs that may be due later, as queues have them. It has room in each page for
// the new versions that claims make, which are wider than the old ones, and its index of live rows mentions no column
// that a claim changes: claims are heap-only updates. An ack takes the row out of that index.
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

	// claim continues behind the last row of the claim before: at the head of the index are rows in progress and
	// entries that nobody has removed yet. The rows come in no order.
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
