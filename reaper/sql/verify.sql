-- The fence: returns a row if holder and term are current, and keeps them so until this transaction ends. The lock has
-- to be FOR SHARE: elect.sql updates no key column, so FOR KEY SHARE would not block it. It does not matter whether the
-- lease has expired, as long as no other candidate has taken it.
SELECT true
FROM {{leader}} AS l
WHERE l.name = $1::text AND l.holder = $2::uuid AND l.term = $3::bigint
FOR SHARE
