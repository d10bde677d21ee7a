-- InProgress -> Ready until a time by the database's clock, without counting the attempt. See put_back.sql.
{{template "put_back" .Waiting}}
