-- Deletes the recorded attempts and steps of a job that is deleted. For jobs without any, which is most of them, this
-- costs the test of WHEN; a foreign key would cost each a look-up in two tables. A job has recorded attempts only if it
-- failed, needed more than one attempt, or was redriven, which resets its attempts. Steps set trail, and so does a
-- Replace. It runs with its owner's rights: policies show attempts and steps to those who see their job, which is gone.
CREATE FUNCTION {{.Function "forget"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
AS $txwork$
BEGIN
    {{.SeesTrail}}
    DELETE FROM {{.Attempt}} AS a WHERE a.job_id = OLD.id;
    DELETE FROM {{.Step}} AS s WHERE s.job_id = OLD.id;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "forget"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "forget"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.trail IS NOT NULL OR OLD.attempts > 1 OR OLD.failed_at IS NOT NULL
    OR OLD.headers ->> 'txwork-redriven-at' IS NOT NULL)
EXECUTE FUNCTION {{.Function "forget"}}();
