ALTER TABLE "{{schema}}"."outbox" ADD COLUMN tenant text NOT NULL DEFAULT 'none';

COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 1, version 2 since 1';
