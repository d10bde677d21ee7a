-- Pauses a queue, ends its pause, or replaces its limits, as Client.Pause, Resume and SetLimits do. The caller has to
-- see all rows, since a rule is for the jobs of all.
CREATE FUNCTION {{.Function "pause"}}(queue text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    {{.SeesSlots}}
    {{.QueueName}}
{{.Inline "pause_queue" "$1" "true"}};
END
$txwork$;

CREATE FUNCTION {{.Function "resume"}}(queue text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    {{.SeesSlots}}
    {{.QueueName}}
{{.Inline "pause_queue" "$1" "false"}};
END
$txwork$;

-- NULL is no limit. A burst that is not given is the starts of one second.
CREATE FUNCTION {{.Function "limit"}}(
    queue text, max_running integer DEFAULT NULL, rate double precision DEFAULT NULL, burst integer DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesSlots}}
    {{.QueueName}}
    {{.Refuse "$2 IS NULL OR $2 >= 1" "max_running" "must be at least 1" "NULL is no limit."}}
    {{.Refuse (printf "$3 IS NULL OR $3 BETWEEN %v AND %v" .MinRate .MaxRate) "rate"
        (printf "must be between %v and %v" .MinRate .MaxRate) "Give starts a second; NULL is no limit."}}
    {{.Refuse "$4 IS NULL OR $4 >= 1 AND $3 IS NOT NULL" "burst" "must be at least 1, and needs a rate"
        "NULL is the starts of one second."}}
    $4 := CASE WHEN $3 IS NOT NULL THEN coalesce($4, greatest(1, ceil(least($3, 2147483647)))::integer) END;
{{.Inline "limit_queue" "$1" "$2" "$3" "$4"}};
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "pause"}}(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Function "resume"}}(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Function "limit"}}(text, integer, double precision, integer) FROM PUBLIC;
