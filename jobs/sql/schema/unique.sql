-- Frees a job's unique key when the job enters an ended state that does not hold the key. It runs in the settle's
-- transaction: an insert that waits for the key in the unique index continues when that commits.
--
-- A BEFORE trigger would save the second version of the row, but it would make every update of every job, claims and
-- renewals included, lock the row first. This trigger costs jobs without a key only the test of WHEN. The test is
-- short, because every settle parses it anew; the function itself checks which states hold the key.
CREATE FUNCTION {{.Function "free_key"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    IF coalesce(NEW.unique_states::integer, 0) & (1 << NEW.status::integer) = 0 THEN
        UPDATE {{.Table}} AS t SET unique_key = NULL WHERE t.id = OLD.id;
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "free_key"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "free_key"}} AFTER UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN (NEW.completed_at IS NOT NULL AND NEW.unique_key IS NOT NULL)
EXECUTE FUNCTION {{.Function "free_key"}}();
