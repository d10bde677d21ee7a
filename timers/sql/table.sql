-- Keys are compared byte by byte, whatever the database's collation, so that the unique index also serves listing by
-- prefix. The rearm columns hold the values that a timer gets after the firing that is under way.
ALTER TABLE {{.Table}}
    ALTER COLUMN "key" TYPE {{.Schema}}."timers_key_value" COLLATE "C",
    ADD COLUMN rearm_at {{.Schema}}."timers_time",
    ADD COLUMN rearm_topic text,
    ADD COLUMN rearm_payload bytea,
    ADD COLUMN rearm_headers jsonb,
    ADD COLUMN rearm_max_attempts integer,
    -- Values are set aside only while the timer fires, so none are ever stranded.
    ADD CONSTRAINT "timers_rearm_check" CHECK (rearm_at IS NULL OR status = 1 AND rearm_topic IS NOT NULL
        AND rearm_payload IS NOT NULL AND rearm_max_attempts IS NOT NULL AND rearm_max_attempts > 0);

CREATE INDEX "timers_schedule_idx" ON {{.Table}} (schedule) WHERE completed_at IS NULL AND schedule IS NOT NULL;

-- When a firing ends during which the timer was set again, this makes the timer Ready at its new time with fresh
-- attempts, whatever ended the firing (ack, abandon, snooze, fail or the reaper; from Go or from SQL). It runs inside
-- the core's guarded settle, on the version of the row that the settle has locked: it sees a Set that committed before,
-- and a later Set waits for the row and finds it settled. A cancel of the firing ends with the firing. The last error
-- stays, as a trace of a firing that failed. Claims and renewals do not write completed_at, and settles of other timers
-- only cost the WHEN test.
CREATE FUNCTION {{.Schema}}."timers_rearm"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    NEW.fire_at := OLD.rearm_at;
    NEW.topic := OLD.rearm_topic;
    NEW.payload := OLD.rearm_payload;
    NEW.headers := OLD.rearm_headers;
    NEW.max_attempts := OLD.rearm_max_attempts;
    NEW.due_at := greatest(OLD.rearm_at, clock_timestamp());
    NEW.status := 0;
    NEW.attempts := 0;
    NEW.completed_at := NULL;
    NEW.failed_at := NULL;
    NEW.cancelled_at := NULL;
    NEW.rearm_at := NULL;
    NEW.rearm_topic := NULL;
    NEW.rearm_payload := NULL;
    NEW.rearm_headers := NULL;
    NEW.rearm_max_attempts := NULL;
    PERFORM {{.Announce}};
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Schema}}."timers_rearm"() FROM PUBLIC;

CREATE TRIGGER "timers_rearm" BEFORE UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN (OLD.rearm_at IS NOT NULL AND OLD.status = 1 AND NEW.status <> 1)
EXECUTE FUNCTION {{.Schema}}."timers_rearm"();

-- The first cancel of a firing, by key or by the core's own cancel, drops what was set during it. The core does not
-- touch a firing that was cancelled before; what was set since then is dropped by Timers.Cancel, which finds timers by
-- key.
CREATE FUNCTION {{.Schema}}."timers_disarm"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    NEW.rearm_at := NULL;
    NEW.rearm_topic := NULL;
    NEW.rearm_payload := NULL;
    NEW.rearm_headers := NULL;
    NEW.rearm_max_attempts := NULL;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Schema}}."timers_disarm"() FROM PUBLIC;

CREATE TRIGGER "timers_disarm" BEFORE UPDATE OF cancelled_at ON {{.Table}}
FOR EACH ROW WHEN (OLD.rearm_at IS NOT NULL AND OLD.cancelled_at IS NULL AND NEW.cancelled_at IS NOT NULL
    AND NEW.status = 1)
EXECUTE FUNCTION {{.Schema}}."timers_disarm"();
