DROP TRIGGER {{.Named "free_key"}} ON {{.Table}};
DROP TRIGGER {{.Named "start_key"}} ON {{.Table}};
DROP TRIGGER {{.Named "chain_key"}} ON {{.Table}};
DROP TRIGGER {{.Named "record"}} ON {{.Table}};
DROP TRIGGER {{.Named "forget"}} ON {{.Table}};
DROP TRIGGER {{.Named "give_slot"}} ON {{.Table}};
DROP TRIGGER {{.Named "drop_slot"}} ON {{.Table}};
DROP FUNCTION {{.Function "free_key"}}();
DROP FUNCTION {{.Function "chain_key"}}();
DROP FUNCTION {{.Function "record"}}();
DROP FUNCTION {{.Function "forget"}}();
DROP FUNCTION {{.Function "admit"}}(text, integer);
DROP FUNCTION {{.Function "take"}}(text, uuid[]);
DROP FUNCTION {{.Function "give_start"}}(text, integer);
DROP FUNCTION {{.Function "give_slot"}}();
DROP FUNCTION {{.Function "slot_sweep"}}(integer);
DROP FUNCTION {{.Function "policies"}}();
DROP FUNCTION {{.Function "pause"}}(text);
DROP FUNCTION {{.Function "resume"}}(text);
DROP FUNCTION {{.Function "limit"}}(text, integer, double precision, integer);
{{- range .WorkFunctions}}
DROP FUNCTION {{$.Function .Name}}({{.Types}});
{{- end}}
DROP TABLE {{.Step}};
DROP TABLE {{.Attempt}};
DROP TABLE {{.Slot}};
DROP TABLE {{.Given}};
DROP TABLE {{.Bucket}};
DROP TABLE {{.Queue}};
