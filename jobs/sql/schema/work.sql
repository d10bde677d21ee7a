-- What a handler in another language does with its job while it holds the job's lease. Each function is guarded by the
-- id and the owner token, as the settles are. A job that is lost is an error, SQLSTATE TXL01, but in put_step, which
-- says so.

-- The recorded steps of a job.
CREATE FUNCTION {{.Function "steps"}}(owner_token uuid, id uuid) RETURNS TABLE (name text, result bytea)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.Holder}}
    IF NOT EXISTS (SELECT {{.Held}}) THEN
        {{.Lost}}
    END IF;
    RETURN QUERY
{{.Inline "steps" "$2"}};
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "steps"}}(uuid, uuid) FROM PUBLIC;

-- Records a step: put, or kept if the step is on record, whose result is then the one that was recorded first.
CREATE FUNCTION {{.Function "put_step"}}(owner_token uuid, id uuid, name text, value bytea)
RETURNS TABLE (result text, recorded bytea)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    held boolean;
    put boolean;
BEGIN
    {{.Holder}}
    {{.StepName}}
    {{.Value "$4" "value"}}
    DELETE FROM {{.Step}} AS s -- those that a Replace has made void
    WHERE s.job_id = $2 AND EXISTS (SELECT {{.Held}} AND NOT t.trail);
{{.Inline "put_step" "$2" "$1" "$3" "$4"}} INTO held, put;
    IF NOT held THEN
        {{.Lost}}
    ELSIF put THEN
        RETURN QUERY SELECT 'put', $4;
    ELSE
        RETURN QUERY SELECT 'kept', s.result FROM {{.Step}} AS s WHERE s.job_id = $2 AND s.name = $3;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "put_step"}}(uuid, uuid, text, bytea) FROM PUBLIC;

-- Says how far the job is, in per cent.
CREATE FUNCTION {{.Function "progress"}}(
    owner_token uuid, id uuid, percent integer, note text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.Holder}}
    {{.Refuse "$3 BETWEEN 0 AND 100" "percent" "must be between 0 and 100" "Give per cent."}}
    {{.Refuse (printf "$4 IS NULL OR octet_length($4) <= %d" .MaxNote) "note"
        (printf "must have at most %d bytes" .MaxNote) "Shorten it."}}
{{.Inline "progress" "$2" "$1" "$3" "$4"}};
    IF NOT FOUND THEN
        {{.Lost}}
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "progress"}}(uuid, uuid, integer, text) FROM PUBLIC;

-- Records the job's output, in the place of one that was recorded before.
CREATE FUNCTION {{.Function "output"}}(owner_token uuid, id uuid, output bytea) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.Holder}}
    {{.Value "$3" "output"}}
{{.Inline "output" "$2" "$1" "$3"}};
    IF NOT FOUND THEN
        {{.Lost}}
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "output"}}(uuid, uuid, bytea) FROM PUBLIC;

-- InProgress -> Done, with the job's output; NULL is none, or the one that is recorded. A repetition after a lost reply
-- finds what the first call left, and is no error.
CREATE FUNCTION {{.Function "complete"}}(owner_token uuid, id uuid, output bytea) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    done uuid;
BEGIN
    {{.Holder}}
    IF $3 IS NOT NULL THEN
        {{.Value "$3" "output"}}
{{.Inline "output" "$2" "$1" "$3"}};
    END IF;
{{.Ack "$1" "ARRAY[$2]"}} INTO done;
    IF done IS NULL THEN
        {{.Lost}}
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "complete"}}(uuid, uuid, bytea) FROM PUBLIC;
{{range .Overloads}}
-- The same for a value of another type, which is stored as text in UTF-8.
CREATE FUNCTION {{$.Function .Name}}({{.Parameters}}) RETURNS {{.Returns}}
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    {{.Call}}
END
$txwork$;

REVOKE ALL ON FUNCTION {{$.Function .Name}}({{.Types}}) FROM PUBLIC;
{{end}}
