-- Puts an attempt on record that did not succeed: a reported failure, a lost lease, a cancel. An attempt that
-- was given back (snooze, shutdown) is none, and one that succeeded is on the job's own row. It runs in the
-- transaction that ends the attempt, whoever does, and locks nothing beside the job's row, which is locked.
-- A settle may end a thousand attempts, so it does no more than this, and pins no plans, which an INSERT has not.
CREATE FUNCTION {{.Function "record"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    INSERT INTO {{.Attempt}} (job_id, attempt, ended_at, outcome, error)
    VALUES (OLD.id, OLD.attempts, clock_timestamp(), CASE
        WHEN NEW.status = 3 AND NEW.cancelled_at IS NOT NULL THEN 'cancelled'
        WHEN NEW.owner_token IS NULL THEN 'lost'
        ELSE 'failed'
    END, NEW.last_error);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "record"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "record"}} AFTER UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN (OLD.status = 1 AND NEW.status IN (0, 3) AND NEW.attempts = OLD.attempts)
EXECUTE FUNCTION {{.Function "record"}}();
