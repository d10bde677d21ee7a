{{range .Functions -}}
DROP FUNCTION {{$.Named .Name}}({{.Types}}) CASCADE;
{{end -}}
DROP INDEX {{.Named "key_wait_idx"}}, {{.Named "key_queue_idx"}}, {{.Named "key_live_idx"}}, {{.Named "key_fail_idx"}};
DROP TABLE {{.Named "key_note"}}, {{.Named "key_state"}}, {{.Named "key_cursor"}};
DROP SEQUENCE {{.Named "key_seq"}};
ALTER TABLE {{.Table}} ALTER COLUMN key_rate TYPE double precision;
DROP DOMAIN {{.Named "key_rate"}};
