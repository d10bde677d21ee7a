DROP FUNCTION "{{schema}}"."timers_schedule_claim"(uuid, integer, integer);
DROP FUNCTION "{{schema}}"."timers_schedule_ack"(uuid, uuid[]);
DROP FUNCTION "{{schema}}"."timers_schedule_abandon"(uuid, uuid[], integer, text);
DROP FUNCTION "{{schema}}"."timers_schedule_fail"(uuid, uuid[], text);
DROP FUNCTION "{{schema}}"."timers_schedule_extend"(uuid, uuid[], integer);
DROP FUNCTION "{{schema}}"."timers_schedule_reap_expired"(integer);
DROP FUNCTION "{{schema}}"."timers_schedule_redrive"(uuid[]);
DROP TABLE "{{schema}}"."timers_schedule";
DROP FUNCTION "{{schema}}"."timers_schedule_announce"();
DROP DOMAIN "{{schema}}"."timers_schedule_retry";

DROP FUNCTION "{{schema}}"."timers_claim"(uuid, integer, integer);
DROP FUNCTION "{{schema}}"."timers_ack"(uuid, uuid[]);
DROP FUNCTION "{{schema}}"."timers_abandon"(uuid, uuid[], integer, text);
DROP FUNCTION "{{schema}}"."timers_fail"(uuid, uuid[], text);
DROP FUNCTION "{{schema}}"."timers_extend"(uuid, uuid[], integer);
DROP FUNCTION "{{schema}}"."timers_reap_expired"(integer);
DROP FUNCTION "{{schema}}"."timers_redrive"(uuid[]);
DROP TABLE "{{schema}}"."timers";
DROP FUNCTION "{{schema}}"."timers_announce"();
DROP DOMAIN "{{schema}}"."timers_retry";

DROP FUNCTION "{{schema}}"."timers_rearm"();
DROP FUNCTION "{{schema}}"."timers_disarm"();
