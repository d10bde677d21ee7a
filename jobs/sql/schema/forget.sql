-- Deletes what is on record about a job that is deleted. Jobs without a record, which is most of them, cost
-- the test of WHEN; a foreign key would cost each a look-up in two tables.
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
FOR EACH ROW WHEN (OLD.trail) EXECUTE FUNCTION {{.Function "forget"}}();
