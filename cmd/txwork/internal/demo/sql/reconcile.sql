-- Compares what was committed with what was applied, from the tables alone.
WITH applied AS (
    SELECT message, count(*) AS times
    FROM {{schema}}.ledger
    GROUP BY message
),
postings AS (
    SELECT account, sum(amount) AS total
    FROM (
        SELECT debit AS account, -amount AS amount FROM {{schema}}.ledger
        UNION ALL
        SELECT credit, amount FROM {{schema}}.ledger
    ) AS p
    GROUP BY account
)
SELECT
    (SELECT count(*) FROM {{schema}}.transfers) AS committed,
    (SELECT count(*) FROM {{schema}}.outbox) AS enqueued,
    (SELECT count(*) FROM applied) AS applied,
    -- committed transfers without a row in the ledger
    (SELECT count(*) FROM {{schema}}.transfers AS t
        WHERE NOT EXISTS (SELECT FROM applied AS a WHERE a.message = t.message)) AS lost,
    (SELECT count(*) FROM applied WHERE times > 1) AS applied_twice,
    (SELECT count(*) FROM {{schema}}.outbox WHERE attempts > 1 OR headers ? 'txwork-lost-together') AS redelivered,
    -- rows of the ledger whose transfer was never committed
    (SELECT count(*) FROM {{schema}}.ledger AS l
        WHERE NOT EXISTS (SELECT FROM {{schema}}.transfers AS t WHERE t.message = l.message)) AS rolled_back_seen,
    (SELECT count(*) FROM {{schema}}.refusals) AS stale_settles_refused,
    -- every balance agrees with the ledger, and no money was created or lost
    (SELECT bool_and(coalesce(a.balance, 0) = coalesce(a.opening, 0) + coalesce(p.total, 0))
            AND sum(a.balance) = sum(a.opening)
        FROM {{schema}}.accounts AS a
        FULL JOIN postings AS p ON p.account = a.id) AS balanced
