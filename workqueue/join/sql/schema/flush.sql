-- Counts what the statement's rows have noted: one call of count for the whole statement, so that its joins
-- are locked in one order. PostgreSQL runs it after the row triggers of the same statement. A statement
-- without members pays for reading one setting.
--
-- Ending a join may end rows which are members of other joins. Their statement finds the flush running
-- and leaves its notes to the loop: however deep the graph, the stack is not.
CREATE FUNCTION {{.Function "flush"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    notes text := current_setting({{.Notes}}, true);
BEGIN
    IF coalesce(notes, '') = '' OR current_setting({{.Flushing}}, true) = 'yes' THEN
        RETURN NULL;
    END IF;
    PERFORM set_config({{.Flushing}}, 'yes', true);
    WHILE notes <> '' LOOP
        PERFORM set_config({{.Notes}}, '', true);
        PERFORM {{.Function "count"}}(string_to_array(rtrim(notes, ','), ','));
        notes := current_setting({{.Notes}}, true);
    END LOOP;
    PERFORM set_config({{.Flushing}}, '', true);
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "flush"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "join_flush"}} AFTER UPDATE OF completed_at OR DELETE ON {{.Table}}
FOR EACH STATEMENT EXECUTE FUNCTION {{.Function "flush"}}();
