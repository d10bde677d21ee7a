-- Roles of txwork for {{.What}}. Run it in one transaction, as a superuser or as the tables' owner with CREATEROLE,
-- and again after every migration; from the second time on the migrator can do that itself:
--     psql -v ON_ERROR_STOP=1 --single-transaction -f FILE "$DATABASE_URL"
-- It can be repeated: what the roles have on these objects is taken from them and given anew. It touches nothing else.
--
-- {{.Name "owner"}} owns the tables, functions and domains. It cannot log in.
-- {{.Name "migrator"}} changes the schema: it is a member of the owner and acts as it from its login on.
-- {{.Name "producer"}} enqueues. It reads of other rows what enqueueing needs, and claims, settles and deletes nothing.
-- {{.Name "worker"}} claims, settles, repairs and enqueues; it runs no DDL and truncates nothing.
-- {{.Name "viewer"}} reads.
--
-- They have no passwords: give each one, or grant them to users of yours.
SET LOCAL search_path = pg_catalog, pg_temp;

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
    IF NOT EXISTS (SELECT FROM pg_db_role_setting AS s WHERE s.setrole = '{{.Role "migrator"}}'::regrole AND 'role={{.Name "owner"}}' = ANY (s.setconfig)) THEN
        ALTER ROLE {{.Role "migrator"}} SET role = '{{.Name "owner"}}'; -- what it makes is the owner's
    END IF;
    IF NOT pg_has_role(current_user, '{{.Name "owner"}}', 'MEMBER') THEN
        GRANT {{.Role "owner"}} TO CURRENT_USER; -- or it could not hand anything over
    END IF;
END
$txwork$;

-- The schema stays whose it is. Nobody but its owner and ours makes anything in it.
DO $txwork$
BEGIN
    IF NOT (has_schema_privilege('{{.Name "owner"}}', '{{.Schema}}', 'USAGE') AND has_schema_privilege('{{.Name "owner"}}', '{{.Schema}}', 'CREATE')) THEN
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

-- What is not the owner's yet becomes so; a change of owner locks the table, so it is not made twice.
DO $txwork$
DECLARE
    command text;
BEGIN
    FOR command IN
        SELECT format('ALTER %s %s OWNER TO {{.Role "owner"}}', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass)
        FROM pg_class AS c
        WHERE c.oid = ANY (ARRAY[
            {{.Literals .Relations}}
        ]::regclass[]) AND c.relowner <> '{{.Role "owner"}}'::regrole
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO {{.Role "owner"}}', p.oid::regprocedure)
        FROM pg_proc AS p
        WHERE p.oid = ANY (ARRAY[{{if .Functions}}
            {{.Literals .Functions}}
        {{end}}]::regproc[]) AND p.proowner <> '{{.Role "owner"}}'::regrole
        UNION ALL
        SELECT format('ALTER DOMAIN %s OWNER TO {{.Role "owner"}}', d.oid::regtype)
        FROM pg_type AS d
        WHERE d.oid = ANY (ARRAY[{{if .Domains}}
            {{.Literals .Domains}}
        {{end}}]::regtype[]) AND d.typowner <> '{{.Role "owner"}}'::regrole
    LOOP
        EXECUTE command;
    END LOOP;
END
$txwork$;
