-- Counts added members into a pending join that is locked.
UPDATE {{.Join}} AS j
SET expected = j.expected + $2::integer,
    succeeded = j.succeeded + $3::integer,
    failed = j.failed + $4::integer
WHERE j.id = $1::uuid AND j.status = 0
