-- Who runs the maintenance of a name. The term grows with every change of leader and fences the last one.
CREATE TABLE "{{schema}}"."leader" (
    name text PRIMARY KEY,
    term bigint NOT NULL,
    holder uuid NOT NULL,
    expires_at timestamptz NOT NULL
);

COMMENT ON TABLE "{{schema}}"."leader" IS 'txwork leader election';
