-- Gives a job's slot back when the job is no longer in progress, after a settle, a reap or a deletion. It deletes a row
-- that no other transaction changes, so it never waits. Workers that wait for room are notified when it commits. It
-- runs with its owner's rights, so that nobody else need be able to free slots.
CREATE FUNCTION {{.Function "give_slot"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
AS $txwork$
BEGIN
    DELETE FROM {{.Slot}} AS s WHERE s.job_id = OLD.id;
    IF FOUND THEN
        PERFORM {{.Announce}};
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "give_slot"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "give_slot"}} AFTER UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN (OLD.slot AND OLD.status = 1 AND NEW.status <> 1)
EXECUTE FUNCTION {{.Function "give_slot"}}();

CREATE TRIGGER {{.Named "drop_slot"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.slot AND OLD.status = 1)
EXECUTE FUNCTION {{.Function "give_slot"}}();
