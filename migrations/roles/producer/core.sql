-- The producer writes all columns except those of a row's state. It reads the id, and the unique columns, which
-- identify a duplicate.
DO $txwork$
DECLARE
    target CONSTANT regclass := '{{.Q .Table}}';
    state CONSTANT name[] := ARRAY['attempts', 'status', 'locked_until', 'owner_token', 'completed_at', 'failed_at',
        'cancelled_at', 'last_error', 'created_at', 'aside'];
    written text;
    seen text;
BEGIN
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
           string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
               FILTER (WHERE a.attname = 'id' OR a.attnum = ANY (u.indkey))
    INTO written, seen
    FROM pg_attribute AS a
    LEFT JOIN pg_index AS u ON u.indexrelid = to_regclass('{{.Q (print .Table "_unique_idx")}}')
    WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL (state);
    EXECUTE format('GRANT INSERT (%s), SELECT (%s) ON %s TO {{.Role "producer"}}', written, seen, target);
END
$txwork$;
