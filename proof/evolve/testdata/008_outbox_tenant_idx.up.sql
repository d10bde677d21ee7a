CREATE INDEX CONCURRENTLY "outbox_tenant_idx" ON "{{schema}}"."outbox" (tenant) WHERE tenant <> 'none';

COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 1, version 3 since 1';
