-- InProgress -> Ready in the same place, for rows that no handler has begun. That due_at is not assigned tells triggers
-- that the row has not moved: see put_back.sql.
{{template "put_back" .Releasing}}
