-- A row by which policies decide who sees a join: the first that exists of its continuations and its members, or NULL.
-- It runs with its owner's rights, since a row that is hidden is not one that is gone, and returns nothing but an id.
CREATE FUNCTION {{.Function "row"}}(id uuid) RETURNS uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
{{.Settings}}
AS $txwork$
BEGIN
    {{.SeesAll}}
    RETURN coalesce(
        (SELECT t.id FROM {{.Join}} AS j
            JOIN {{.Table}} AS t ON t.id = ANY (ARRAY[j.on_complete, j.on_fail])
            WHERE j.id = $1
            LIMIT 1),
        (SELECT t.id FROM {{.Member}} AS m
            JOIN {{.Table}} AS t ON t.id = m.member_id
            WHERE m.join_id = $1
            LIMIT 1));
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "row"}}(uuid) FROM PUBLIC;

-- Makes policies of the tables of joins that follow those of the domain table, if it has row-level security, and takes
-- them away if it has none. For the owner of the tables, who calls it after each change of that.
--
-- A join is seen by those who see its continuation or, if it has none, its members. Nobody can continue a join with a
-- row that he does not see, nor add a step to a join of others. Only who sees all rows reads notes; a note by hand only
-- has a join counted anew.
CREATE FUNCTION {{.Function "policies"}}() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $txwork$
BEGIN
    DROP POLICY IF EXISTS txwork_read ON {{.Join}};
    DROP POLICY IF EXISTS txwork_insert ON {{.Join}};
    DROP POLICY IF EXISTS txwork_update ON {{.Join}};
    DROP POLICY IF EXISTS txwork_read ON {{.Member}};
    DROP POLICY IF EXISTS txwork_insert ON {{.Member}};
    DROP POLICY IF EXISTS txwork_insert ON {{.Note}};
    IF NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = '{{.Table}}'::regclass) THEN
        ALTER TABLE {{.Join}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Member}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Note}} DISABLE ROW LEVEL SECURITY;
        ALTER TABLE {{.Cursor}} DISABLE ROW LEVEL SECURITY;
        RETURN;
    END IF;
    ALTER TABLE {{.Join}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Member}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Note}} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {{.Cursor}} ENABLE ROW LEVEL SECURITY;

    CREATE POLICY txwork_read ON {{.Join}} FOR SELECT
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Function "row"}}({{.Join}}.id)));
    CREATE POLICY txwork_insert ON {{.Join}} FOR INSERT WITH CHECK (
        ({{.Join}}.on_complete IS NULL OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Join}}.on_complete))
        AND ({{.Join}}.on_fail IS NULL OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Join}}.on_fail)));
    CREATE POLICY txwork_update ON {{.Join}} FOR UPDATE
        USING (EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Function "row"}}({{.Join}}.id)))
        WITH CHECK (
            ({{.Join}}.on_complete IS NULL OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Join}}.on_complete))
            AND ({{.Join}}.on_fail IS NULL OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Join}}.on_fail)));

    CREATE POLICY txwork_read ON {{.Member}} FOR SELECT USING (
        EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Member}}.member_id)
        OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Function "row"}}({{.Member}}.join_id)));
    CREATE POLICY txwork_insert ON {{.Member}} FOR INSERT WITH CHECK (
        EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Member}}.member_id)
        AND ({{.Function "row"}}({{.Member}}.join_id) IS NULL -- the first steps of a join without a continuation
            OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Function "row"}}({{.Member}}.join_id))));

    CREATE POLICY txwork_insert ON {{.Note}} FOR INSERT WITH CHECK (
        {{.Note}}.member_id IS NULL AND {{.Note}}.gone IS NULL
        OR EXISTS (SELECT FROM {{.Table}} AS t WHERE t.id = {{.Note}}.member_id));
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "policies"}}() FROM PUBLIC;
