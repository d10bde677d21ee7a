-- Counts the rows of each lane that are not due yet. Reads a bounded number of rows in all, by the claim index.
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT {{template "names" .}} AS lane, h.*
FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS rows
    FROM (
        {{template "later" .}}
    ) AS s
) AS h
