DROP FUNCTION {{.Function "strip"}}(integer, interval);
DROP FUNCTION {{.Function "begin"}}(text, text, text, bytea, bytea, uuid, text);
