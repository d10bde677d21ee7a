{{- /* The messages of a batch that the lane of a subscription has: what b has seen and p.seen has not. late are
the transactions that p.seen had open and b saw end, news are the others. Most is how many are read of each, if that is
bounded. */ -}}
{{define "batch"}}            SELECT m.xid, m.seq, m.id, m.created_at, m.topic, m.key, m.headers, m.payload
            FROM (
                {{with .Most}}({{end}}SELECT * FROM {{.Log}} AS m
                WHERE {{template "news" .}}
                {{- with .Most}}
                ORDER BY m.xid, m.seq LIMIT {{.}}){{end}}
                UNION ALL
                {{with .Most}}({{end}}SELECT * FROM {{.Log}} AS m
                WHERE m.xid = ANY (own.late){{with .Most}} LIMIT {{.}}){{end}}) AS m
            WHERE {{template "wanted" .}}
{{- end}}
{{define "wanted"}}(own.s.lanes = 1
                OR abs(hashtextextended(coalesce(m.key, m.id::text), 0) % own.s.lanes) = own.p.lane)
              AND (own.s.topics IS NULL OR m.topic = ANY (own.s.topics) OR m.topic ^@ ANY (own.s.prefixes))
              AND (own.s.headers IS NULL OR m.headers @> own.s.headers)
{{- end}}
{{define "unsettled"}}NOT ((m.seq <= own.p.done OR m.seq = ANY (own.p.ahead))
                AND m.xid < (own.p.upto).high AND m.xid <> ALL ((own.p.upto).open))
{{- end}}
{{define "late"}}ARRAY(
        SELECT x FROM unnest((own.p.seen).open) AS x
        WHERE x < own.b.low OR x < own.b.high AND x <> ALL (own.b.open))
{{- end}}
{{define "news"}}m.xid >= (own.p.seen).high AND m.xid < own.b.high AND m.xid <> ALL (own.b.open){{end}}
