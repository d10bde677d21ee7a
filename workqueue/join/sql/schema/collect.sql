-- Notes that a member has settled, or was redriven, for the statement's flush: the id and its outcome, 1
-- succeeded, 2 failed, 0 taken back. The notes are a setting that is local to the transaction, so a
-- rollback, also one to a savepoint, forgets them. Nothing is locked here.
--
-- A row that is deleted while it is live never settled.{{if .DeleteDone}} This table deletes on ack, so a row in progress that
-- is deleted was acknowledged; a Ready one was taken away, and counts as failed.{{else}} It counts as failed, whoever held it.{{end}}
CREATE FUNCTION {{.Function "collect"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    outcome text := '2';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        outcome := CASE WHEN NEW.completed_at IS NULL THEN '0' WHEN NEW.status = 2 THEN '1' ELSE '2' END;
    {{- if .DeleteDone}}
    ELSIF OLD.status = 1 THEN
        outcome := '1';
    {{- end}}
    END IF;
    PERFORM set_config({{.Notes}}, coalesce(current_setting({{.Notes}}, true), '') || OLD.id || outcome || ',', true);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "collect"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "join_settle"}} AFTER UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN (OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL AND NEW.joined)
EXECUTE FUNCTION {{.Function "collect"}}();

CREATE TRIGGER {{.Named "join_redrive"}} AFTER UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN (OLD.status = 3 AND NEW.completed_at IS NULL AND NEW.joined)
EXECUTE FUNCTION {{.Function "collect"}}();

CREATE TRIGGER {{.Named "join_delete"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.completed_at IS NULL AND OLD.joined)
EXECUTE FUNCTION {{.Function "collect"}}();
