-- Looks first: CREATE SCHEMA IF NOT EXISTS wants the right to create schemas even where there is nothing to create.
DO $txwork$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '{{schema}}') THEN
        CREATE SCHEMA "{{schema}}";
    END IF;
END
$txwork$;
