DROP FUNCTION {{.Function "trigger"}}(text);
DROP FUNCTION {{.Function "resume"}}(text);
DROP FUNCTION {{.Function "pause"}}(text);
