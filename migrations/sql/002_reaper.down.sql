DROP FUNCTION "{{schema}}"."leader_note"(text);
DROP TABLE "{{schema}}"."leader";
