-- A retry policy that cannot be computed would fail the reaper's whole batch. It is a domain because the server parses
-- a CHECK of a table anew for every statement that writes to the table, and that of a domain once in a session. Delays
-- are whole microseconds, and a jitter is 0 or large enough to matter: NaN would pass a comparison by >=, and numbers
-- that are too large or too small make a multiplication fail. The types of each operator match its operands exactly, so
-- that no operator in the caller's search_path fits better.
CREATE DOMAIN {{.Function "retry"}} AS jsonb CONSTRAINT {{.Named "retry_check"}} CHECK (
    VALUE IS NULL
    OR ((VALUE ->> 'base_us')::bigint BETWEEN 0 AND {{.MaxDelayMicros}}
        AND (VALUE ->> 'cap_us')::bigint BETWEEN 0 AND {{.MaxDelayMicros}}
        AND (VALUE ->> 'growth') = ANY (ARRAY['constant'::text, 'linear'::text, 'quadratic'::text, 'exponential'::text])
        AND (coalesce((VALUE ->> 'jitter')::float8, 0::float8) = 0::float8
            OR (VALUE ->> 'jitter')::float8 BETWEEN {{.MinJitter}}::float8 AND 1::float8)) IS TRUE
);

-- A time that the library can represent, so that every difference of two of them can be computed and printed. The
-- server would accept an infinite time, and one such row would fail every statement that subtracts it from another. It
-- is a domain for the same reason, and guards every column with times, in this table and in those that belong to it. A
-- range costs less than two comparisons: each column of an insert, NULL or not, prepares the check.
CREATE DOMAIN {{.Function "time"}} AS timestamptz CONSTRAINT {{.Named "time_check"}} CHECK (
    VALUE <@ '[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange
);
{{- if .StoredBounds}}

-- The values that columns may have, in domains for the same reason.
{{- end}}
{{- range .StoredBounds}}
CREATE DOMAIN {{$.Stored .}} AS {{.Type}}
    CONSTRAINT {{$.Named (print .Name "_check")}} CHECK ({{.Within "VALUE"}});
{{- end}}

CREATE TABLE {{.Table}} (
    id uuid PRIMARY KEY DEFAULT {{newID}},
    due_at {{.Function "time"}} NOT NULL DEFAULT now(),
    created_at {{.Function "time"}} NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT {{.MaxAttempts}},
    {{- range .FixedColumns}}
    {{.Quoted}} {{$.Stored .}} NOT NULL,
    {{- end}}
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until {{.Function "time"}},
    completed_at {{.Function "time"}},
    owner_token uuid,
    failed_at {{.Function "time"}},
    cancelled_at {{.Function "time"}},
    last_error text,
    headers jsonb,
    retry {{.Function "retry"}},
    {{- range .OtherColumns}}
    {{.Quoted}} {{$.Stored .}}{{if .NotNull}} NOT NULL{{end}},
    {{- end}}
    {{- if .HasTopics}}
    aside boolean, -- true: the row waits in the lane of its topic
    {{- end}}
    -- Which times each status has. It is short because every statement that writes parses the checks anew: a row in
    -- progress has locked_until (1), a done one has completed_at, which counts twice (2), and a failed one has
    -- completed_at and failed_at (3). A ready row is not cancelled: no claim would end it.
    CONSTRAINT {{.Named "state_check"}} CHECK (
        status = num_nonnulls(completed_at, completed_at, failed_at, locked_until)
        AND CASE WHEN completed_at IS NOT NULL THEN locked_until IS NULL
            ELSE failed_at IS NULL AND CASE WHEN locked_until IS NULL THEN cancelled_at IS NULL
                ELSE owner_token IS NOT NULL AND NOT waiting END
            END
    ),
    -- A Ready row without attempts left would fail every claim that finds it. A row in progress may be at its last
    -- attempt. The status is subtracted because a sum would overflow in a row whose maximum is the greatest integer.
    CONSTRAINT {{.Named "attempts_check"}}
        CHECK (max_attempts > 0 AND attempts >= 0 AND attempts - status < max_attempts)
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE {{.Table}} IS {{.VersionComment}};

CREATE INDEX {{.Named "claim_idx"}} ON {{.Table}} ({{range .Lanes}}{{.Quoted}}, {{end}}due_at, id)
    WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX {{.Named "waiting_idx"}} ON {{.Table}} (id) WHERE completed_at IS NULL AND waiting;

CREATE INDEX {{.Named "done_idx"}} ON {{.Table}} (completed_at)
    WHERE completed_at IS NOT NULL AND (failed_at IS NULL OR cancelled_at IS NOT NULL);

CREATE INDEX {{.Named "failed_idx"}} ON {{.Table}} (failed_at, id) WHERE failed_at IS NOT NULL;
{{- if .Unique}}

CREATE UNIQUE INDEX {{.Named "unique_idx"}} ON {{.Table}}
    ({{range $i, $c := .Unique}}{{if $i}}, {{end}}{{$c.Quoted}}{{end}})
    WHERE {{range $i, $c := .Unique}}{{if $i}} AND {{end}}{{$c.Quoted}} IS NOT NULL{{end}};
{{- end}}

-- Notifies workers, unless an announcer does so for this transaction. A trigger of another table, which no announcer
-- watches, passes an argument so that it always notifies.
--
-- No search_path is pinned; every name is qualified instead. Setting and resetting it would cost the server a tenth of
-- a transaction that inserts one row.
CREATE FUNCTION {{.Function "announce"}}() RETURNS trigger
LANGUAGE plpgsql
AS $txwork$
BEGIN
    IF TG_NARGS OPERATOR(pg_catalog.>) 0 OR {{.MustAnnounce}} THEN
        PERFORM {{.Announce}};
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "announce"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "announce"}} AFTER INSERT ON {{.Table}}
FOR EACH STATEMENT EXECUTE FUNCTION {{.Function "announce"}}();
