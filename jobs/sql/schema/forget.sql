-- Deletes what is on record about a job that is deleted. Jobs without a record, which is most of them, cost
-- the test of WHEN; a foreign key would cost each a look-up in two tables. A job has attempts on record only if it
-- failed, needed more than one, or was redriven, which counts its attempts anew; its steps have set trail, and a Replace, too.
CREATE FUNCTION {{.Function "forget"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    DELETE FROM {{.Attempt}} AS a WHERE a.job_id = OLD.id;
    DELETE FROM {{.Step}} AS s WHERE s.job_id = OLD.id;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "forget"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "forget"}} AFTER DELETE ON {{.Table}}
FOR EACH ROW WHEN (OLD.trail IS NOT NULL OR OLD.attempts > 1 OR OLD.failed_at IS NOT NULL OR OLD.headers ->> 'txwork-redriven-at' IS NOT NULL)
EXECUTE FUNCTION {{.Function "forget"}}();
