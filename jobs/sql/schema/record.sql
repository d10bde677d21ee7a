-- Records an attempt that did not succeed: a reported failure, a lost lease or a cancel. A snooze, a shutdown or a
-- lease lost together with others gives the attempt back, so it is not recorded, and a success is stored in the job's
-- own row. This runs in the transaction that ends the attempt, and locks nothing but the job's row, which is locked
-- already. A settle may end a thousand attempts, so it does nothing else, and pins no planner settings, since an INSERT
-- has only one plan. It runs with its owner's rights, so that nobody else need be able to write a history.
CREATE FUNCTION {{.Function "record"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
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
