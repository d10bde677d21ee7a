DROP INDEX CONCURRENTLY "{{schema}}"."outbox_tenant_idx";

COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 1, version 2 since 1';
