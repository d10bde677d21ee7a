-- The recorded steps of a job. It deletes the steps that a Replace has made void.
WITH job AS MATERIALIZED (
    SELECT t.id, t.trail FROM {{.Table}} AS t WHERE t.id = $1::uuid
), forgotten AS (
    DELETE FROM {{.Step}} AS d USING job WHERE d.job_id = job.id AND NOT job.trail
)
SELECT s.name, s.result FROM {{.Step}} AS s JOIN job ON s.job_id = job.id AND job.trail
