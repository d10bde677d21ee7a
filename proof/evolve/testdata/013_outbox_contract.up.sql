COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 2, version 5 since 4';
