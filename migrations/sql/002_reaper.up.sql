-- Who maintains each table, by its name with the schema. The term grows with every change of leader and fences the
-- last one.
CREATE TABLE "{{schema}}"."leader" (
    name text PRIMARY KEY,
    term bigint NOT NULL,
    holder uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    granted_at timestamptz NOT NULL -- later than now: the clock was set back, and the lease means nothing
);

COMMENT ON TABLE "{{schema}}"."leader" IS 'txwork leader election';
