-- The steps that are on record about a job. Reads only.
SELECT s.name, s.result FROM {{.Step}} AS s WHERE s.job_id = $1::uuid
