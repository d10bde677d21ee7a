DO $txwork$
BEGIN
    IF NOT EXISTS (SELECT FROM "{{schema}}"."schema_version" WHERE version_id > 0) THEN
        DROP TABLE "{{schema}}"."schema_version", "{{schema}}"."schema_domain";
    END IF;
END
$txwork$;
