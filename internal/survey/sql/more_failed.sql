-- Whether there are rows that ended without success behind the latest $1 of them.
SELECT EXISTS (
    SELECT FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL
    ORDER BY r.failed_at DESC, r.id DESC
    OFFSET $1::int LIMIT 1) AS more
