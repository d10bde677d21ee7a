DROP FUNCTION "txwork"."outbox_claim"(uuid, integer, integer);
DROP FUNCTION "txwork"."outbox_ack"(uuid, uuid[]);
DROP FUNCTION "txwork"."outbox_abandon"(uuid, uuid[], integer, text);
DROP FUNCTION "txwork"."outbox_fail"(uuid, uuid[], text);
DROP FUNCTION "txwork"."outbox_extend"(uuid, uuid[], integer);
DROP FUNCTION "txwork"."outbox_reap_expired"(integer);
DROP FUNCTION "txwork"."outbox_redrive"(uuid[]);
DROP TABLE "txwork"."outbox";
DROP FUNCTION "txwork"."outbox_announce"();
