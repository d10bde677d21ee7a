DROP FUNCTION "{{schema}}"."outbox_claim"(uuid, integer, integer);
DROP FUNCTION "{{schema}}"."outbox_ack"(uuid, uuid[]);
DROP FUNCTION "{{schema}}"."outbox_abandon"(uuid, uuid[], integer, text);
DROP FUNCTION "{{schema}}"."outbox_fail"(uuid, uuid[], text);
DROP FUNCTION "{{schema}}"."outbox_extend"(uuid, uuid[], integer);
DROP FUNCTION "{{schema}}"."outbox_reap_expired"(integer);
DROP FUNCTION "{{schema}}"."outbox_redrive"(uuid[]);
DROP TABLE "{{schema}}"."outbox";
DROP FUNCTION "{{schema}}"."outbox_announce"();
