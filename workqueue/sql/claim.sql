-- Ready -> InProgress. Locks only the rows that it takes and never waits for a lock (SKIP LOCKED). Lanes are read in
-- the given order, each after its own cursor, until the claim is full. One statement serves any number of lanes, and it
-- reads no row of a lane that it does not take. The array is computed once, so the limit holds; its rows are then
-- fetched by ctid, without an index look-up. A row that changed between snapshot and lock is locked but not returned:
-- the next claim from the start finds it. status = 0 is a literal because a parameter would hide the index from a
-- generic plan. No changed column is indexed, so the update is heap-only.
UPDATE {{.Table}} AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = @owner_token::uuid,
    locked_until = clock_timestamp() + @lease::interval{{.AlsoSet}}
WHERE t.ctid = ANY ({{if .Taken}}{{.Taken}}{{else}}ARRAY({{template "candidates" .}}){{end}})
RETURNING {{if .Fetches}}t.*{{else if .WholeRows}}t AS claimed{{else}}{{template "claimed" .}}{{end}}
