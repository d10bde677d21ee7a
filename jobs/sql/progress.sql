-- Sets the progress, guarded by id and owner token like every change of a running job.
UPDATE {{.Table}} AS t
SET progress = $3::smallint,
    progress_note = $4::text
WHERE t.id = $1::uuid AND t.owner_token = $2::uuid AND t.status = 1
