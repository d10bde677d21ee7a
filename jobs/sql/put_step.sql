-- Records a step, guarded by the owner token: the update locks the job's row, so that no other worker can claim the job
-- before the record has committed. Returns whether the token was still valid, and whether this result was recorded: a
-- step that is recorded already keeps its first result.
WITH held AS (
    UPDATE {{.Table}} AS t
    SET trail = true
    WHERE t.id = $1::uuid AND t.owner_token = $2::uuid AND t.status = 1
    RETURNING t.id
), put AS (
    INSERT INTO {{.Step}} AS s (job_id, name, result)
    SELECT held.id, $3::text, $4::bytea FROM held
    ON CONFLICT (job_id, name) DO NOTHING
    RETURNING s.job_id
)
SELECT EXISTS (SELECT FROM held), EXISTS (SELECT FROM put)
