-- Notes that a member has settled, was redriven, or was deleted while it was live. Nothing is read and nothing is
-- locked: whoever settles waits for nobody, whatever is going on in the joins.
--
-- A row that is deleted while it is live never settled.{{if .DeleteDone}} This table deletes on ack, so a row in progress that
-- is deleted was acknowledged; a Ready one was taken away, and counts as failed.{{else}} It counts as failed, whoever held it.{{end}}
CREATE FUNCTION {{.Function "settled"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    gone smallint := 2;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        gone := CASE WHEN NEW.completed_at IS NULL THEN NULL WHEN NEW.status = 2 THEN 1 ELSE 2 END;
    {{- if .DeleteDone}}
    ELSIF OLD.status = 1 THEN
        gone := 1;
    {{- end}}
    END IF;
    INSERT INTO {{.Note}} (member_id, gone) VALUES (OLD.id, gone);
    IF {{.MustAnnounceNote}} THEN
        PERFORM {{.AnnounceNote}};
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "settled"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "join_settle"}} AFTER UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN ((OLD.completed_at IS NULL) <> (NEW.completed_at IS NULL) AND NEW.joined)
EXECUTE FUNCTION {{.Function "settled"}}();

CREATE TRIGGER {{.Named "join_delete"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.completed_at IS NULL AND OLD.joined)
EXECUTE FUNCTION {{.Function "settled"}}();
