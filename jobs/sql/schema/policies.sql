-- Makes policies of the side tables that follow those of the jobs, if the table of jobs has row-level security, and
-- takes them away if it has none. For the owner of the tables, who calls it after each change of that.
--
-- Attempts and steps are seen by those who see their job; only a trigger writes attempts. A limit counts the jobs of
-- all, so its rules, tokens and slots are seen by all. Only who sees all rows changes rules. A slot is taken for a job
-- that the role sees in progress, and so are tokens. Starts are given back for a queue in which it sees a job.
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
    DROP POLICY IF EXISTS txwork_read ON {{.Bucket}};
    DROP POLICY IF EXISTS txwork_insert ON {{.Bucket}};
    DROP POLICY IF EXISTS txwork_update ON {{.Bucket}};
    DROP POLICY IF EXISTS txwork_read ON {{.Given}};
    DROP POLICY IF EXISTS txwork_insert ON {{.Given}};
    DROP POLICY IF EXISTS txwork_lock ON {{.Given}};
    DROP POLICY IF EXISTS txwork_delete ON {{.Given}};
    IF NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '{{.Table}}'::regclass) THEN
        ALTER TABLE {{.Attempt}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Step}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Queue}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Slot}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Bucket}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Given}} DISABLE ROW LEVEL SECURITY;
        RETURN;
    END IF;
    ALTER TABLE {{.Attempt}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Step}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Queue}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Slot}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Bucket}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Given}} ENABLE ROW LEVEL SECURITY;

    CREATE POLICY txwork_read ON {{.Attempt}} FOR SELECT
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Attempt}}.job_id));
    CREATE POLICY txwork_all ON {{.Step}}
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Step}}.job_id));

    CREATE POLICY txwork_read ON {{.Queue}} FOR SELECT USING (true);
    CREATE POLICY txwork_read ON {{.Slot}} FOR SELECT USING (true);
    CREATE POLICY txwork_insert ON {{.Slot}} FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM {{.Table}} AS t
            WHERE t.id = {{.Slot}}.job_id AND t.status = 1 AND t.queue = {{.Slot}}.queue));
    CREATE POLICY txwork_read ON {{.Bucket}} FOR SELECT USING (true);
    CREATE POLICY txwork_insert ON {{.Bucket}} FOR INSERT WITH CHECK ({{.Bucket}}.tokens IS NULL);
    CREATE POLICY txwork_update ON {{.Bucket}} FOR UPDATE
        USING (true) -- to lock it
        WITH CHECK (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.status = 1 AND t.queue = {{.Bucket}}.queue));
    CREATE POLICY txwork_read ON {{.Given}} FOR SELECT USING (true);
    CREATE POLICY txwork_insert ON {{.Given}} FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM {{.Table}} AS t WHERE t.queue = {{.Given}}.queue));
    CREATE POLICY txwork_lock ON {{.Given}} FOR UPDATE USING (true) WITH CHECK (false);
    CREATE POLICY txwork_delete ON {{.Given}} FOR DELETE USING (true); -- by the next claim, whoever has given them
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "policies"}}() FROM PUBLIC;
