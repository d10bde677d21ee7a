-- InProgress -> Ready without counting the attempt, for rows whose handler has begun. A NULL delay leaves due_at
-- alone: a worker that shuts down puts the rows of interrupted handlers back where they were. See put_back.sql.
{{template "put_back" .}}
