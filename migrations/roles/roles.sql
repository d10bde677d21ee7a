-- Roles of txwork for {{.What}}. Run it as a superuser or as the tables'
-- owner with CREATEROLE, and again after every migration; from the second time on the migrator can run it, too:
--     psql -v ON_ERROR_STOP=1 -f FILE "$DATABASE_URL"
-- It can be repeated: it revokes and grants anew the rights of the roles on these objects. It touches nothing else.
--
-- It begins and commits its own transactions, so that applications and workers can go on. It locks one table at a time,
-- and waits for it, and for others who run it or migrations, no longer than {{.LockTimeout}}. After an error of a lock,
-- what it has done stays: run it again.
--
-- {{.Name "owner"}} owns the tables, functions and domains. It cannot log in.
-- {{.Name "migrator"}} changes the schema: it is a member of the owner and acts as the owner from its login on.
-- {{.Name "producer"}} enqueues. It reads what enqueueing needs of other rows, and cannot claim, settle or delete.
-- {{.Name "worker"}} claims, settles, repairs and enqueues; it cannot run DDL or truncate.
-- {{.Name "viewer"}} reads.
-- {{.Name "operator"}} reads, and runs, moves, redrives, cancels, discards and deletes rows that are there.
--
-- The roles have no passwords: set one for each, or grant the roles to your own users.
{{template "begin" .}}
DO $txwork$
BEGIN
{{- range .Roles}}
    IF to_regrole('{{.Quoted}}') IS NULL THEN
        CREATE ROLE {{.Quoted}} {{.Login}};
        COMMENT ON ROLE {{.Quoted}} IS 'txwork: {{.For}}';
    END IF;
{{- end}}
    IF NOT pg_has_role('{{.Name "migrator"}}', '{{.Name "owner"}}', 'MEMBER') THEN
        GRANT {{.Role "owner"}} TO {{.Role "migrator"}};
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_db_role_setting AS s
        WHERE s.setrole = '{{.Role "migrator"}}'::regrole AND 'role={{.Name "owner"}}' = ANY (s.setconfig)
    ) THEN
        ALTER ROLE {{.Role "migrator"}} SET role = '{{.Name "owner"}}'; -- the owner owns what the migrator creates
    END IF;
    IF NOT pg_has_role(current_user, '{{.Name "owner"}}', 'MEMBER') THEN
        GRANT {{.Role "owner"}} TO CURRENT_USER; -- only a member can change an object's owner to it
    END IF;
{{- template "elsewhere"}}
END
$txwork$;

-- The schema keeps its owner. Only that owner and {{.Name "owner"}} may create objects in it.
DO $txwork$
BEGIN
    IF NOT (has_schema_privilege('{{.Name "owner"}}', '{{.Schema}}', 'USAGE')
        AND has_schema_privilege('{{.Name "owner"}}', '{{.Schema}}', 'CREATE')) THEN
        GRANT USAGE, CREATE ON SCHEMA "{{.Schema}}" TO {{.Role "owner"}};
    END IF;
{{- range .Users}}
    IF NOT has_schema_privilege('{{.Name}}', '{{$.Schema}}', 'USAGE') THEN
        GRANT USAGE ON SCHEMA "{{$.Schema}}" TO {{.Quoted}};
    END IF;
{{- end}}
    IF EXISTS (
        SELECT FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
        WHERE n.nspname = '{{.Schema}}' AND a.grantee = 0 AND a.privilege_type = 'CREATE'
    ) THEN
        REVOKE CREATE ON SCHEMA "{{.Schema}}" FROM PUBLIC;
    END IF;
END
$txwork$;

-- Whoever owned objects before can go on using them: tables change their owner one after the other, and functions after
-- them, which run with the rights of their owner.
DO $txwork$
DECLARE
    former name;
BEGIN
    FOR former IN
        SELECT DISTINCT pg_get_userbyid(c.relowner) FROM pg_class AS c
        WHERE c.oid = ANY (ARRAY[
            {{.Literals .Relations}}
        ]::regclass[]) AND NOT pg_has_role(c.relowner, '{{.Name "owner"}}', 'USAGE')
    LOOP
        IF pg_has_role('{{.Name "owner"}}', former, 'MEMBER') THEN
            EXECUTE format('REVOKE %I FROM {{.Role "owner"}}', former);
        END IF;
        EXECUTE format('GRANT {{.Role "owner"}} TO %I', former);
    END LOOP;
{{- template "elsewhere"}}
END
$txwork$;
COMMIT;

-- A change of owner locks the table against everybody. So each has its transaction, which locks nothing else: who waits
-- for it may have locked any other table. Tables that {{.Name "owner"}} owns already are left alone.
{{- range .Relations}}
{{template "begin" $}}
DO $txwork$
BEGIN
    IF EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.oid = '{{$.Q .}}'::regclass AND c.relowner <> '{{$.Role "owner"}}'::regrole
          -- the sequence of an identity column has its table's owner
          AND NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_depend AS d
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i'))
    ) THEN
        ALTER TABLE {{$.Q .}} OWNER TO {{$.Role "owner"}};
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION '{{$.Q .}} was in use for more than {{$.LockTimeout}}'
        USING ERRCODE = 'lock_not_available', HINT = 'Run this SQL again when that has ended: it goes on here.';
END
$txwork$;
COMMIT;
{{- end}}

-- The owner of what no statement of others locks.
{{template "begin" .}}
DO $txwork$
DECLARE
    command text;
BEGIN
    FOR command IN
        SELECT format('ALTER ROUTINE %s OWNER TO {{.Role "owner"}}', p.oid::regprocedure)
        FROM pg_proc AS p
        WHERE p.oid = ANY (ARRAY[{{if .Functions}}
            {{.Literals .Functions}}
        {{end}}]::regproc[]) AND p.proowner <> '{{.Role "owner"}}'::regrole
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO {{.Role "owner"}}', p.oid::regprocedure)
        FROM pg_proc AS p
        WHERE p.pronamespace = '"{{.Schema}}"'::regnamespace AND p.proname = ANY (ARRAY[{{.Names .ByName}}]::name[])
          AND p.proowner <> '{{.Role "owner"}}'::regrole
        UNION ALL
        SELECT format('ALTER DOMAIN %s OWNER TO {{.Role "owner"}}', d.oid::regtype)
        FROM pg_type AS d
        WHERE d.typtype = 'd' AND d.typowner <> '{{.Role "owner"}}'::regrole
          AND EXISTS (SELECT FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
            WHERE a.atttypid = d.oid AND starts_with(d.typname, c.relname || '_') AND c.oid = ANY (ARRAY[
            {{.Literals .Relations}}
        ]::regclass[]))
        UNION ALL -- what a fetch returns, and what a position of a log has seen
        SELECT format('ALTER TYPE %s OWNER TO {{.Role "owner"}}', t.oid::regclass)
        FROM pg_class AS t
        WHERE t.relkind = 'c' AND t.relowner <> '{{.Role "owner"}}'::regrole
          AND EXISTS (SELECT FROM pg_class AS c
            WHERE c.relnamespace = t.relnamespace AND t.relname IN ((c.relname || '_fetched')::name,
                (c.relname || '_seen')::name)
              AND c.oid = ANY (ARRAY[
            {{.Literals .Relations}}
        ]::regclass[]))
    LOOP
        EXECUTE command;
    END LOOP;
END
$txwork$;
COMMIT;
{{- define "begin"}}
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '{{.LockTimeout}}';
DO $txwork$
BEGIN
    FOR attempt IN 1..30 LOOP
        IF pg_try_advisory_xact_lock({{.SchemaLock}}) THEN
            RETURN;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RAISE EXCEPTION 'roles or migrations of schema {{.Schema}} are under way in another session'
        USING ERRCODE = 'lock_not_available', HINT = 'Run this SQL again when that has ended.';
END
$txwork$;
{{- end}}
{{- /* Roles belong to the whole server, and may be made for other schemas and databases at the same time. */ -}}
{{- define "elsewhere"}}
EXCEPTION WHEN unique_violation OR duplicate_object OR internal_error THEN -- as: tuple concurrently updated
    RAISE EXCEPTION 'another session makes or changes the same roles: %', SQLERRM
        USING ERRCODE = 'lock_not_available', HINT = 'Run this SQL again when that has ended.';
{{- end}}
