-- Rows whose settle the database refuses, and the SQLSTATE of the refusal.
CREATE TABLE {{.Schema}}.refused (
    id uuid PRIMARY KEY,
    code text NOT NULL
);

CREATE FUNCTION {{.Schema}}.refuse() RETURNS trigger
LANGUAGE plpgsql
AS $torture$
DECLARE
    code text := (SELECT r.code FROM {{.Schema}}.refused AS r WHERE r.id = NEW.id);
BEGIN
    IF code IS NOT NULL THEN
        RAISE EXCEPTION 'refused on purpose' USING ERRCODE = code;
    END IF;
    RETURN NULL;
END
$torture$;

CREATE TRIGGER a_torture_refuse AFTER UPDATE OF status ON {{.Schema}}.jobs
FOR EACH ROW WHEN (OLD.status = 1 AND NEW.status > 1) EXECUTE FUNCTION {{.Schema}}.refuse();
