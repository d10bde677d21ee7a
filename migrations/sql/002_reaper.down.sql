DROP FUNCTION "{{schema}}"."require"(integer, integer, text[]);
DROP FUNCTION "{{schema}}"."protocol"();
DROP TABLE "{{schema}}"."audit";
DROP FUNCTION "{{schema}}"."audit_trim"();
DROP PROCEDURE "{{schema}}"."process_beat"(bigint, text, text, text, jsonb);
DROP FUNCTION "{{schema}}"."owner_token"(bigint);
DROP TABLE "{{schema}}"."process";
DROP FUNCTION "{{schema}}"."leader_note"(text, text);
DROP TABLE "{{schema}}"."leader";
