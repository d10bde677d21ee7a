-- Records a step under the guard of the owner token: the update locks the job's row, so that nobody can take
-- the job from its owner before the record has committed. Tells whether the token held, and the result that
-- is on record: the first one.
WITH held AS (
    UPDATE {{.Table}} AS t
    SET trail = true
    WHERE t.id = $1::uuid AND t.owner_token = $2::uuid AND t.status = 1
    RETURNING t.id
)
INSERT INTO {{.Step}} AS s (job_id, name, result)
SELECT held.id, $3::text, $4::bytea FROM held
ON CONFLICT (job_id, name) DO UPDATE SET result = s.result
RETURNING s.result
