-- Sets the output, guarded by id and owner token like every change of a running job.
UPDATE {{.Table}} AS t
SET output = $3::bytea
WHERE t.id = $1::uuid AND t.owner_token = $2::uuid AND t.status = 1
