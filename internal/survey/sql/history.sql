-- The history of some tables in the last $3 seconds, up to now if $5, and otherwise to the end of the last step of $4
-- seconds: of the lane $2 and of the whole table, or of all lanes. If there is one step only, the rows of a lane are
-- added up, their buckets one by one, and sorted by the bytes of their names, since comparing words takes longer than
-- adding. A row without a table only says when that ends, by the server's clock.
SELECT n.upto, h.table_name, h.lane, h.at, h.done, h.retried, h.dead, h.snoozed, h.cancelled, h.lost, h.expired,
       h.enqueued, h.waits, h.runs, h.stored, h.longest
FROM (SELECT CASE WHEN $5::boolean THEN clock_timestamp() ELSE
    date_bin($4::bigint * interval '1 second', clock_timestamp() - interval '30 seconds', 'epoch') END AS upto) AS n
LEFT JOIN LATERAL (
    SELECT NULL AS table_name, NULL AS lane, NULL::timestamptz AS at, 0 AS done, 0 AS retried, 0 AS dead, 0 AS snoozed,
           0 AS cancelled, 0 AS lost, 0 AS expired, NULL::bigint AS enqueued, '{}'::bigint[] AS waits,
           '{}'::bigint[] AS runs, 0 AS stored, 0 AS longest
    UNION ALL
    SELECT o.table_name COLLATE "C", o.lane COLLATE "C",
    {{- if .Buckets}}
           min(o.at), sum(o.done)::bigint, sum(o.retried)::bigint, sum(o.dead)::bigint, sum(o.snoozed)::bigint,
           sum(o.cancelled)::bigint, sum(o.lost)::bigint, sum(o.expired)::bigint, sum(o.enqueued)::bigint,
           ARRAY[{{range .Buckets}}{{if .}}, {{end}}coalesce(sum(o.waits[{{.}} + 1]), 0)::bigint{{end}}],
           ARRAY[{{range .Buckets}}{{if .}}, {{end}}coalesce(sum(o.runs[{{.}} + 1]), 0)::bigint{{end}}], count(*),
           max(greatest(cardinality(o.waits), cardinality(o.runs)))
    {{- else}}
           o.at, o.done, o.retried, o.dead, o.snoozed, o.cancelled, o.lost, o.expired, o.enqueued, o.waits, o.runs, 1, 0
    {{- end}}
    FROM (
        SELECT o.*
        FROM {{.Table}} AS o
        WHERE o.table_name = ANY ($1::text[]) AND ($2::text IS NULL OR o.lane IN ('', $2::text))
          AND o.step = $6::integer
          AND o.at >= date_bin($6::integer * interval '1 second', n.upto - $3::bigint * interval '1 second', 'epoch')
          AND o.at < n.upto
        ORDER BY o.at DESC
        LIMIT 20000) AS o
    {{- if .Buckets}}
    GROUP BY o.table_name COLLATE "C", o.lane COLLATE "C"
    {{- end}}
) AS h ON true
