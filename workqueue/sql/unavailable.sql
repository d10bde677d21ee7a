-- InProgress -> Ready without counting the attempt, for rows whose destination cannot be reached: their topic rests.
-- Without a topic that may rest they wait as long as the longest rest of one. begun is the topic whose rest this row
-- has begun. See put_back.sql.
{{template "put_back" .Unavailable}}
