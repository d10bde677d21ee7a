-- The values that a job's columns may have. They are domains because the server parses a CHECK of a table anew for
-- every statement that writes to the table, and that of a domain once in a session and only where a value is assigned.
-- A job with a priority that no worker serves would never be claimed.
CREATE DOMAIN {{.Function "kind_name"}} AS text
    CONSTRAINT {{.Named "kind_check"}} CHECK (octet_length(VALUE) BETWEEN 1 AND {{.MaxKind}});
CREATE DOMAIN {{.Function "queue_name"}} AS text
    CONSTRAINT {{.Named "queue_check"}} CHECK (octet_length(VALUE) BETWEEN 1 AND {{.MaxQueue}});
CREATE DOMAIN {{.Function "priority"}} AS smallint
    CONSTRAINT {{.Named "priority_check"}} CHECK (VALUE BETWEEN 1 AND 3);
CREATE DOMAIN {{.Function "progress"}} AS smallint
    CONSTRAINT {{.Named "progress_check"}} CHECK (VALUE BETWEEN 0 AND 100);
