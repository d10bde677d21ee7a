-- InProgress -> Ready after a delay, for rows that no handler has begun: a worker leaves them to others. That waiting
-- is assigned, to itself, tells triggers that the row has not started, see put_back.sql.
{{template "put_back" .Leaving}}
