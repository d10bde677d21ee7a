CREATE TABLE {{.Table}} (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    max_attempts integer NOT NULL DEFAULT {{.MaxAttempts}},
    {{- range .FixedColumns}}
    {{.Quoted}} {{.Type}} NOT NULL,
    {{- end}}
    attempts integer NOT NULL DEFAULT 0,
    status smallint NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,
    locked_until timestamptz,
    completed_at timestamptz,
    owner_token uuid,
    failed_at timestamptz,
    cancelled_at timestamptz,
    last_error text,
    headers jsonb,
    retry jsonb,
    {{- range .OtherColumns}}
    {{.Quoted}} {{.Type}}{{if .NotNull}} NOT NULL{{end}},
    {{- end}}
    CONSTRAINT {{.Named "state_check"}} CHECK (
        status BETWEEN 0 AND 3
        AND (status = 1) = (locked_until IS NOT NULL)
        AND (status <> 1 OR owner_token IS NOT NULL)
        AND (status <> 1 OR NOT waiting)
        AND (status <> 0 OR attempts < max_attempts) -- a row that no claim may start would block every claim
        AND (status >= 2) = (completed_at IS NOT NULL)
        AND (status = 3) = (failed_at IS NOT NULL)
    ),
    CONSTRAINT {{.Named "attempts_check"}} CHECK (attempts BETWEEN 0 AND max_attempts AND max_attempts > 0),
    CONSTRAINT {{.Named "due_check"}} CHECK (isfinite(due_at)),
    CONSTRAINT {{.Named "retry_check"}} CHECK ( -- one that cannot be computed would fail the reaper's whole batch
        retry IS NULL
        OR ((retry ->> 'base_us')::float8 >= 0
            AND (retry ->> 'cap_us')::float8 BETWEEN 0 AND {{.MaxDelayMicros}}
            AND coalesce((retry ->> 'jitter')::float8, 0) BETWEEN 0 AND 1) IS TRUE
    )
) WITH (
    fillfactor = 42,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

COMMENT ON TABLE {{.Table}} IS {{.VersionComment}};

CREATE INDEX {{.Named "claim_idx"}} ON {{.Table}} ({{range .Lanes}}{{.Quoted}}, {{end}}due_at, id) WHERE completed_at IS NULL AND NOT waiting;

CREATE INDEX {{.Named "waiting_idx"}} ON {{.Table}} (id) WHERE completed_at IS NULL AND waiting;

{{- if not .DeleteDone}}

CREATE INDEX {{.Named "done_idx"}} ON {{.Table}} (completed_at) WHERE completed_at IS NOT NULL AND failed_at IS NULL;
{{- end}}

CREATE INDEX {{.Named "failed_idx"}} ON {{.Table}} (failed_at, id) WHERE failed_at IS NOT NULL;
{{- if .Unique}}

CREATE UNIQUE INDEX {{.Named "unique_idx"}} ON {{.Table}} ({{range $i, $c := .Unique}}{{if $i}}, {{end}}{{$c.Quoted}}{{end}}) WHERE {{range $i, $c := .Unique}}{{if $i}} AND {{end}}{{$c.Quoted}} IS NOT NULL{{end}};
{{- end}}

CREATE FUNCTION {{.Function "announce"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    PERFORM {{.Announce}};
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "announce"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "announce"}} AFTER INSERT ON {{.Table}}
FOR EACH STATEMENT EXECUTE FUNCTION {{.Function "announce"}}();
