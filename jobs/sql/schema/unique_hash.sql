-- The hash of unique fields, which is the same in every language: the SHA-256 of their canonical form in base64url. The
-- form is all fields, sorted by the bytes of their names, each as length:name type length:value. docs/sql.md describes
-- it. It must never change, since the keys of jobs are made of it.
CREATE FUNCTION {{.Function "unique_hash"}}(unique_fields jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    field record;
    value bytea;
    letter text;
    form bytea := '';
BEGIN
    {{.RefuseFields "jsonb_typeof(unique_fields) = 'object'" "must be a JSON object"}}
    {{.RefuseFields (printf "(SELECT count(*) FROM jsonb_each(unique_fields)) BETWEEN 1 AND %d" .MaxFields)
        (printf "must have 1 to %d fields" .MaxFields)}}
    FOR field IN
        SELECT convert_to(e.key, 'UTF8') AS name, jsonb_typeof(e.value) AS type, e.value #>> '{}' AS text
        FROM jsonb_each(unique_fields) AS e ORDER BY 1
    LOOP
        letter := CASE field.type WHEN 'string' THEN 's' WHEN 'number' THEN 'n' WHEN 'boolean' THEN 'b'
            WHEN 'null' THEN 'z' END;
        {{.RefuseFields "letter IS NOT NULL" "must have no arrays and objects"}}
        {{.RefuseFields (printf "octet_length(field.name) BETWEEN 1 AND %d" .MaxFieldName)
            (printf "must have names of 1 to %d bytes" .MaxFieldName)}}
        IF letter = 'n' THEN
            {{.RefuseFields (printf
                "abs(field.text::numeric) < 1e%[1]d AND scale(trim_scale(field.text::numeric)) <= %[1]d"
                .MaxFieldDigits) (printf "must have numbers of at most %d digits before and behind the point"
                .MaxFieldDigits)}}
            field.text := trim_scale(field.text::numeric);
        END IF;
        value := convert_to(coalesce(field.text, ''), 'UTF8');
        {{.RefuseFields (printf "octet_length(value) <= %d" .MaxFieldText)
            (printf "must have texts of at most %d bytes" .MaxFieldText)}}
        form := form || convert_to(octet_length(field.name) || ':', 'UTF8') || field.name
            || convert_to(letter || octet_length(value) || ':', 'UTF8') || value;
    END LOOP;
    RETURN translate(encode(sha256(form), 'base64'), '+/=', '-_');
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "unique_hash"}}(jsonb) FROM PUBLIC;
