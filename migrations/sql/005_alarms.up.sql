-- One row for each scheduled wake, as its owner sees it. Its timer (table timers, key 'alarm/<id>') decides when it
-- fires, and is written in the same transactions. next_fire_at repeats that time for readers.
CREATE TABLE "{{schema}}"."alarms" (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_did text NOT NULL,
    user_id text NOT NULL,
    label text NOT NULL DEFAULT '',
    kind text NOT NULL CHECK (kind IN ('once', 'cron')),
    fire_at "{{schema}}"."timers_time",
    cron_expr text NOT NULL DEFAULT '',
    timezone text NOT NULL DEFAULT 'UTC',
    next_fire_at timestamptz NOT NULL,
    conversation_id text NOT NULL DEFAULT '',
    wake_message text NOT NULL DEFAULT '',
    payload jsonb NOT NULL DEFAULT '{}'::jsonb,
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'fired', 'cancelled', 'failed')),
    idempotency_key text NOT NULL DEFAULT '',
    max_failures integer NOT NULL DEFAULT 5,
    failure_count integer NOT NULL DEFAULT 0,
    last_error text NOT NULL DEFAULT '',
    claimed_at "{{schema}}"."timers_time",
    created_at "{{schema}}"."timers_time" NOT NULL DEFAULT now(),
    updated_at "{{schema}}"."timers_time" NOT NULL DEFAULT now(),
    last_fired_at "{{schema}}"."timers_time",
    CONSTRAINT "alarms_time_check" CHECK ( -- the times that timers and the library can represent
        next_fire_at BETWEEN '1970-01-01 00:00Z' AND '9998-12-31 23:59:59.999999Z'
    )
);

COMMENT ON TABLE "{{schema}}"."alarms" IS 'txwork alarms 1';

CREATE INDEX "alarms_due_idx" ON "{{schema}}"."alarms" (next_fire_at) WHERE status = 'active';

-- The series whose last delivery failed, those without a success for longest first. Its columns change only when those
-- of the index above change, too, so it costs a delivery nothing.
CREATE INDEX "alarms_failing_idx" ON "{{schema}}"."alarms" ((coalesce(last_fired_at, created_at)))
WHERE status = 'active' AND kind = 'cron' AND last_error <> '';

CREATE INDEX "alarms_owner_idx" ON "{{schema}}"."alarms" (owner_did, created_at DESC);

CREATE UNIQUE INDEX "alarms_idempotency_idx" ON "{{schema}}"."alarms" (owner_did, idempotency_key) WHERE idempotency_key <> '';
