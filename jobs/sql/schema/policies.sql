-- Makes policies of the side tables that follow those of the jobs, if the table of jobs has row-level security, and
-- takes them away if it has none. For the owner of the tables, who calls it after each change of that.
--
-- Attempts and steps are seen by those who see their job; only a trigger writes attempts. A limit counts the jobs of
-- all, so its rules, starts and slots are seen by all. Only who sees all rows changes rules. Slots and starts are taken
-- for jobs that the role sees in progress, and starts are given back for jobs that it sees.
CREATE FUNCTION {{.Function "policies"}}() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON {{.Attempt}};
    DROP POLICY IF EXISTS txwork_all ON {{.Step}};
    DROP POLICY IF EXISTS txwork_read ON {{.Queue}};
    DROP POLICY IF EXISTS txwork_read ON {{.Slot}};
    DROP POLICY IF EXISTS txwork_insert ON {{.Slot}};
    DROP POLICY IF EXISTS txwork_read ON {{.Start}};
    DROP POLICY IF EXISTS txwork_insert ON {{.Start}};
    DROP POLICY IF EXISTS txwork_update ON {{.Start}};
    DROP POLICY IF EXISTS txwork_delete ON {{.Start}};
    IF NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '{{.Table}}'::regclass) THEN
        ALTER TABLE {{.Attempt}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Step}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Queue}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Slot}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Start}} DISABLE ROW LEVEL SECURITY;
        RETURN;
    END IF;
    ALTER TABLE {{.Attempt}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Step}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Queue}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Slot}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Start}} ENABLE ROW LEVEL SECURITY;

    CREATE POLICY txwork_read ON {{.Attempt}} FOR SELECT
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Attempt}}.job_id));
    CREATE POLICY txwork_all ON {{.Step}}
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Step}}.job_id));

    CREATE POLICY txwork_read ON {{.Queue}} FOR SELECT USING (true);
    CREATE POLICY txwork_read ON {{.Slot}} FOR SELECT USING (true);
    CREATE POLICY txwork_insert ON {{.Slot}} FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM {{.Table}} AS t
            WHERE t.id = {{.Slot}}.job_id AND t.status = 1 AND t.queue = {{.Slot}}.queue));
    CREATE POLICY txwork_read ON {{.Start}} FOR SELECT USING (true);
    CREATE POLICY txwork_insert ON {{.Start}} FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM {{.Table}} AS t
            WHERE t.id = {{.Start}}.job_id AND t.status = 1 AND t.queue = {{.Start}}.queue));
    CREATE POLICY txwork_update ON {{.Start}} FOR UPDATE
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Start}}.job_id));
    CREATE POLICY txwork_delete ON {{.Start}} FOR DELETE
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Start}}.job_id));
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "policies"}}() FROM PUBLIC;
