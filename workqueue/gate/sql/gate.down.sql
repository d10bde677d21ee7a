{{range .Functions -}}
DROP FUNCTION {{$.Named .Name}}({{.Types}}) CASCADE;
{{end -}}
DROP INDEX {{.Named "gate_wait_idx"}}, {{.Named "gate_queue_idx"}}, {{.Named "gate_live_idx"}}, {{.Named "gate_fail_idx"}};
DROP TABLE {{.Named "gate_note"}}, {{.Named "gate_known"}}, {{.Named "gate_cursor"}};
DROP SEQUENCE {{.Named "gate_seq"}};
