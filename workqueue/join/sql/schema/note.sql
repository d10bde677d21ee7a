-- Writes a note that a member has settled, was redriven, or was deleted while it was live. It reads and locks nothing,
-- so a settle never waits for a join. It runs with its owner's rights, so that no role that settles needs any on the
-- notes.
--
{{- if .DeleteDone}}
-- This table deletes rows on ack. So a row in progress that is deleted was acknowledged, and a Ready row that is
-- deleted counts as failed.
{{- else}}
-- A row that is deleted while it is live never settled. It counts as failed, even if a worker held it.
{{- end}}
CREATE FUNCTION {{.Function "settled"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
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
    IF {{.Announce.MustNote}} THEN
        PERFORM {{.Announce.Note}};
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
