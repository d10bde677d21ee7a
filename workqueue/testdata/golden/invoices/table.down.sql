DROP FUNCTION "billing"."invoices_claim"(uuid, integer, integer, text, smallint);
DROP FUNCTION "billing"."invoices_ack"(uuid, uuid[]);
DROP FUNCTION "billing"."invoices_abandon"(uuid, uuid[], integer, text);
DROP FUNCTION "billing"."invoices_fail"(uuid, uuid[], text);
DROP FUNCTION "billing"."invoices_extend"(uuid, uuid[], integer);
DROP FUNCTION "billing"."invoices_reap_expired"(integer);
DROP FUNCTION "billing"."invoices_redrive"(uuid[]);
DROP TABLE "billing"."invoices";
DROP FUNCTION "billing"."invoices_announce"();
