-- The operator decides about rows by its functions. It writes their state and what triggers change with it, and no
-- payload, key or lane.
DO $txwork$
DECLARE
    target CONSTANT regclass := '{{.Q .Table}}';
    written text;
BEGIN
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO written
    FROM pg_attribute AS a
    WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped AND a.attname = ANY (ARRAY[
        'due_at', 'status', 'waiting', 'attempts', 'completed_at', 'failed_at', 'cancelled_at', 'owner_token',
        'last_error', 'headers', 'aside', 'key_policy', 'key_seq', 'unique_key', 'freed_key'
        {{- if .Schedule}}, 'paused', 'next_at', 'buffered_at', 'skipped',
        'owed', 'resumed_at', 'triggers'{{end}}]);
    EXECUTE format('GRANT UPDATE (%s), DELETE ON %s TO {{.Role "operator"}}', written, target);
END
$txwork$;
{{- if .Ruled}}
GRANT INSERT, UPDATE, DELETE ON TABLE {{.List .Ruled}} TO {{.Role "operator"}};
{{- end}}
