-- Frees a job's unique key when it enters an ended state that does not hold it, in the settle's transaction:
-- whoever waits for the key in the unique index goes on when that commits.
--
-- A BEFORE trigger would spare the second version of the row, and would have every update of every job, claims
-- and renewals included, take a row lock of its own first. This one costs jobs without a key the test of WHEN,
-- which is short, since every settle reads it anew: which states hold the key is looked at inside.
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
