DROP TRIGGER "outbox_join_settle" ON "{{schema}}"."outbox";
DROP TRIGGER "outbox_join_redrive" ON "{{schema}}"."outbox";
DROP TRIGGER "outbox_join_delete" ON "{{schema}}"."outbox";
DROP TRIGGER "outbox_join_flush" ON "{{schema}}"."outbox";
DROP FUNCTION "{{schema}}"."outbox_join_collect"();
DROP FUNCTION "{{schema}}"."outbox_join_flush"();
DROP FUNCTION "{{schema}}"."outbox_join_count"(text[]);
DROP FUNCTION "{{schema}}"."outbox_join_sweep"(integer);
DROP FUNCTION "{{schema}}"."outbox_join_end"(uuid[], smallint, text);
DROP FUNCTION "{{schema}}"."outbox_join_purge"(interval, integer);
DROP FUNCTION "{{schema}}"."outbox_join_forget"(uuid[]);
DROP TABLE "{{schema}}"."outbox_join_member";
DROP TABLE "{{schema}}"."outbox_join";

DROP FUNCTION "{{schema}}"."outbox_gate_enter"() CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_come"() CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_back"() CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_leave"() CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_sweep"(integer) CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_skip"(uuid[]) CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_promote"(text, boolean, boolean) CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_room"(text, integer) CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_refill"(text, double precision, integer) CASCADE;
DROP FUNCTION "{{schema}}"."outbox_gate_park"(text, uuid) CASCADE;
DROP INDEX "{{schema}}"."outbox_gate_wait_idx", "{{schema}}"."outbox_gate_queue_idx", "{{schema}}"."outbox_gate_one_idx", "{{schema}}"."outbox_gate_live_idx", "{{schema}}"."outbox_gate_fail_idx";
ALTER TABLE "{{schema}}"."outbox" DROP CONSTRAINT "outbox_gate_check";
DROP TABLE "{{schema}}"."outbox_gate_rate", "{{schema}}"."outbox_gate_cursor";
DROP SEQUENCE "{{schema}}"."outbox_gate_seq";

DROP FUNCTION "{{schema}}"."outbox_claim"(uuid, integer, integer);
DROP FUNCTION "{{schema}}"."outbox_ack"(uuid, uuid[]);
DROP FUNCTION "{{schema}}"."outbox_abandon"(uuid, uuid[], integer, text);
DROP FUNCTION "{{schema}}"."outbox_fail"(uuid, uuid[], text);
DROP FUNCTION "{{schema}}"."outbox_extend"(uuid, uuid[], integer);
DROP FUNCTION "{{schema}}"."outbox_reap_expired"(integer);
DROP FUNCTION "{{schema}}"."outbox_redrive"(uuid[]);
DROP TABLE "{{schema}}"."outbox";
DROP FUNCTION "{{schema}}"."outbox_announce"();

