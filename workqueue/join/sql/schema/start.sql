-- Nothing -> pending, with the rows of the join, in the caller's transaction: for programs in any language. Rows are
-- objects as <table>_enqueue_many has them, and none of them may be unique. They are new, so nobody else sees them, and
-- nothing but the writers' locks of ordered keys is waited for. Everything is checked before anything is written.
--
-- What is returned of a continuation has another name than the parameter: PL/pgSQL refuses the same name twice.
CREATE FUNCTION {{.StartFunction}}(
    {{.Starter.Steps}} jsonb, on_complete jsonb DEFAULT NULL, on_fail jsonb DEFAULT NULL,
    policy text DEFAULT 'wait_all', deadline timestamptz DEFAULT NULL, label text DEFAULT NULL,
    INOUT id uuid DEFAULT NULL,
    OUT {{.Starter.Step}}_ids uuid[], OUT on_complete_id uuid, OUT on_fail_id uuid
)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    {{.Rows.Declare}}
    n integer;
    messages jsonb := $1;
BEGIN
    {{.RefuseArray}}
    {{.RefuseLength}}
    {{.RefuseContinuation "$2" "on_complete"}}
    {{.RefuseContinuation "$3" "on_fail"}}
    {{.RefusePolicy}}
    {{.RefuseDeadline}}
    {{.RefuseLabel}}
    $2 := nullif($2, 'null');
    n := jsonb_array_length($1);
    IF $2 IS NOT NULL THEN
        messages := messages || jsonb_build_array($2);
    END IF;
    IF jsonb_typeof($3) = 'object' THEN
        messages := messages || jsonb_build_array($3);
    END IF;
    $7 := coalesce($7, {{.NewID}});
    {{.Rows.Check}}
    {{.Rows.Write}}
    {{.Starter.Step}}_ids := coalesce({{.Rows.IDs}}[1:n], '{}');
    on_complete_id := CASE WHEN $2 IS NOT NULL THEN {{.Rows.IDs}}[n + 1] END;
    on_fail_id := CASE WHEN jsonb_typeof($3) = 'object' THEN {{.Rows.IDs}}[size] END;
{{.InsertJoin}};
    IF n > 0 THEN
{{.InsertMembers}};
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.StartFunction}}(jsonb, jsonb, jsonb, text, timestamptz, text, uuid) FROM PUBLIC;
