-- A row that has given up its unique value takes it again, if no row holds it: of the rows that want one value, that
-- which failed first. The subquery is read only if there is such a row, and looks up each value, whatever the planner
-- expects. A row that takes the value at the same time makes the statement fail at the unique index.
t.id IN (
            SELECT DISTINCT ON (f.{{.Freed}}) f.id
            FROM {{.Table}} AS f
            WHERE f.id = ANY (@ids::uuid[]) AND f.status = 3 AND f.{{.Freed}} IS NOT NULL
              AND (SELECT h.id FROM {{.Table}} AS h WHERE h.{{.Held}} = f.{{.Freed}}) IS NULL
            ORDER BY f.{{.Freed}}, f.failed_at, f.id)
