-- What was committed to the log, each version of the positions, and each of the messages that are parked. A position's
-- row and a parked row are locked while their versions are appended, so seq orders these.
CREATE TABLE {{.Schema}}.log_written (
    seq bigint NOT NULL,
    id uuid NOT NULL,
    topic text NOT NULL,
    key text,
    created_at timestamptz NOT NULL
);

CREATE FUNCTION {{.Schema}}.audit_log() RETURNS trigger
LANGUAGE plpgsql
AS $torture$
BEGIN
    INSERT INTO {{.Schema}}.log_written VALUES (NEW.seq, NEW.id, NEW.topic, NEW.key, NEW.created_at);
    RETURN NULL;
END
$torture$;

CREATE TRIGGER a_torture_audit AFTER INSERT ON {{.Schema}}.outbox_log
FOR EACH ROW EXECUTE FUNCTION {{.Schema}}.audit_log();

CREATE TABLE {{.Schema}}.log_moved (
    n bigserial NOT NULL,
    subscription text NOT NULL,
    lane smallint NOT NULL,
    app text NOT NULL,
    at timestamptz NOT NULL,
    token uuid,
    until timestamptz,
    done bigint NOT NULL,
    page bigint,
    tick bigint NOT NULL,
    upto bigint,
    attempts integer NOT NULL
);

CREATE FUNCTION {{.Schema}}.audit_log_position() RETURNS trigger
LANGUAGE plpgsql
AS $torture$
BEGIN
    INSERT INTO {{.Schema}}.log_moved (subscription, lane, app, at, token, until, done, page, tick, upto, attempts)
    VALUES (NEW.subscription, NEW.lane, current_setting('application_name'), greatest(now(), clock_timestamp()),
        NEW.owner_token, NEW.locked_until, NEW.done, NEW.page, (NEW.seen).n, (NEW.upto).n, NEW.attempts);
    RETURN NULL;
END
$torture$;

CREATE TRIGGER a_torture_audit AFTER INSERT OR UPDATE ON {{.Schema}}.outbox_log_position
FOR EACH ROW EXECUTE FUNCTION {{.Schema}}.audit_log_position();

CREATE TABLE {{.Schema}}.log_parked (
    n bigserial NOT NULL,
    subscription text NOT NULL,
    message_id uuid NOT NULL,
    app text NOT NULL,
    op "char" NOT NULL,
    old_status smallint,
    status smallint NOT NULL,
    attempts integer NOT NULL
);

CREATE FUNCTION {{.Schema}}.audit_log_parked() RETURNS trigger
LANGUAGE plpgsql
AS $torture$
DECLARE
    r {{.Schema}}.outbox_log_parked := coalesce(NEW, OLD);
BEGIN
    INSERT INTO {{.Schema}}.log_parked (subscription, message_id, app, op, old_status, status, attempts)
    VALUES (r.subscription, r.message_id, current_setting('application_name'), left(TG_OP, 1)::"char",
        CASE WHEN TG_OP <> 'INSERT' THEN OLD.status END, r.status, r.attempts);
    RETURN NULL;
END
$torture$;

CREATE TRIGGER a_torture_audit AFTER INSERT OR UPDATE OR DELETE ON {{.Schema}}.outbox_log_parked
FOR EACH ROW EXECUTE FUNCTION {{.Schema}}.audit_log_parked();
