COMMENT ON TABLE "{{schema}}"."outbox" IS 'txwork core 2 since 1, version 4 since 1';
