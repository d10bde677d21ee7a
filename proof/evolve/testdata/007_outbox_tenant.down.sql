ALTER TABLE "{{schema}}"."outbox" DROP COLUMN tenant;

COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 1';
