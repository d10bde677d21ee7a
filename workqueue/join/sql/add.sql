-- Adds members to a pending join that is locked.
UPDATE {{.Join}} AS j SET expected = j.expected + $2::integer WHERE j.id = $1::uuid AND j.status = 0
