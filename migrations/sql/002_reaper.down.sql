DROP FUNCTION "{{schema}}"."leader_note"(text, text);
DROP TABLE "{{schema}}"."leader";
