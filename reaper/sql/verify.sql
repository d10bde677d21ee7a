-- The fence: one row if holder and term are current, and they stay so until this transaction ends.
-- It has to be FOR SHARE: elect.sql updates no key column, and FOR KEY SHARE would let it pass.
-- Whether the lease has ended does not matter as long as nobody else has taken it.
SELECT true
FROM {{leader}} AS l
WHERE l.name = $1::text AND l.holder = $2::uuid AND l.term = $3::bigint
FOR SHARE
