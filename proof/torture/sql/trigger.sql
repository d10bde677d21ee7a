-- The trigger's name sorts before those of the domain's own triggers, so that it records a version before they change
-- it.
CREATE FUNCTION {{.Schema}}.audit_{{.Table}}() RETURNS trigger
LANGUAGE plpgsql
AS $torture$
DECLARE
    r {{.Schema}}.{{.Table}} := coalesce(NEW, OLD);
BEGIN
    INSERT INTO {{.Schema}}.row_changes (tbl, id, op, old_status, old_token, status, waiting, cancelled, token,
        attempts, max_attempts, due_at, fire_at, locked_until, generation, name, key, app, xid, txn_at, at)
    VALUES ('{{.Table}}', r.id, left(TG_OP, 1)::"char",
        CASE WHEN TG_OP = 'INSERT' THEN -1 ELSE OLD.status END, CASE WHEN TG_OP <> 'INSERT' THEN OLD.owner_token END,
        r.status, {{.Waiting}}, r.cancelled_at IS NOT NULL, r.owner_token, r.attempts,
        r.max_attempts, r.due_at, {{.Fire}}, r.locked_until, {{.Generation}},
        CASE WHEN TG_OP = 'INSERT' THEN {{.Name}} END, CASE WHEN TG_OP = 'INSERT' THEN {{.Key}} END,
        current_setting('application_name'), pg_current_xact_id()::text::bigint, now(), clock_timestamp());
    RETURN NULL;
END
$torture$;

CREATE TRIGGER a_torture_audit AFTER INSERT OR UPDATE OR DELETE ON {{.Schema}}.{{.Table}}
FOR EACH ROW EXECUTE FUNCTION {{.Schema}}.audit_{{.Table}}();
