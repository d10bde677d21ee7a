-- The log of an outbox: messages that are written once and never updated, for any number of subscriptions. ADR 0079
-- has the protocol.
CREATE SEQUENCE {{.Named "seq"}};

-- What had ended when a snapshot was taken, in transaction ids plus the shift: all below low, none from high on, and
-- of those between all but open. n counts the ticks. seq is the last number that was drawn: it only sizes batches.
CREATE TYPE {{.Named "seen"}} AS (
    n bigint,
    low bigint,
    high bigint,
    open bigint[],
    seq bigint
);

-- xid is the writer's top-level transaction id plus the shift, seq a draw of the row's own: see {{.Name}}_shift. The
-- slot follows from the clock, and the slots are a ring: a slot that has not been emptied when its turn comes again
-- just has more rows. Whatever the table takes, the table of parked messages takes, too.
CREATE TABLE {{.Log}} (
    xid bigint NOT NULL,
    seq bigint NOT NULL DEFAULT nextval('{{.Named "seq"}}'),
    id uuid NOT NULL DEFAULT {{.NewID}},
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    slot smallint NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp()) / {{.SlotSeconds}}) % {{.Slots}},
    topic text NOT NULL,
    key text,
    headers jsonb,
    payload bytea NOT NULL
) PARTITION BY LIST (slot);

COMMENT ON TABLE {{.Log}} IS 'txwork outbox_log {{.Version}}';

CREATE INDEX {{.Own "xid_idx"}} ON {{.Log}} (xid, seq);
{{range .EachSlot}}
CREATE TABLE {{$.Slot .}} PARTITION OF {{$.Log}} FOR VALUES IN ({{.}});
{{- end}}

-- The one row of what holds for the whole log. shift is what ids of transactions are raised by, system the cluster that
-- they belong to, and gone a tick that has seen all messages that have been removed. If an outbox of rows has moved
-- here, successor is the subscription that has the destination of the rows, switched_at the time of the switch, and
-- moving says that not all rows have been moved. thinned are the ticks up to which they have been thinned out, by the
-- second and by the minute.
CREATE TABLE {{.Named "state"}} (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    shift bigint NOT NULL DEFAULT 0,
    system bigint NOT NULL DEFAULT (pg_control_system()).system_identifier,
    gone bigint NOT NULL DEFAULT 0,
    successor text,
    switched_at timestamptz,
    moving boolean NOT NULL DEFAULT false CHECK (NOT moving OR successor IS NOT NULL),
    thinned bigint[] NOT NULL DEFAULT '{0,0}'
);

INSERT INTO {{.Named "state"}} DEFAULT VALUES;

-- silent_until is until when producers need not announce their messages: whoever stored the tick with the number keeper
-- has promised to tick again, see tick_step.
CREATE TABLE {{.Named "tick"}} (
    n bigint PRIMARY KEY,
    at timestamptz NOT NULL, -- after the snapshot was taken
    silent_until timestamptz,
    keeper bigint,
    seen {{.Named "seen"}} NOT NULL
);

-- topics and prefixes are NULL together: then the subscription has all topics. max_age and max_messages bound how far
-- behind it may be, and NULL does not.
CREATE TABLE {{.Named "subscription"}} (
    name text PRIMARY KEY,
    topics text[],
    prefixes text[],
    headers jsonb,
    lanes smallint NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    max_age interval,
    max_messages bigint,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A destination that a consumer has called unavailable: since when, until when nobody tries it, the length of that rest
-- and what the last consumer said.
CREATE TYPE {{.Named "rest"}} AS (
    since timestamptz,
    until timestamptz,
    length interval,
    cause text
);

-- All that a position has seen is settled. The other columns are about the batch in hand, which ends with what upto has
-- seen: it is settled up to the number done; the page in hand ends with the number page; whole says that the batch ends
-- with the page; withheld are the numbers of the page that were not handed out, and are parked when they are settled;
-- ahead are numbers behind done that are settled, too.
-- A lane is leased while locked_until is set. The token stays when a batch ends, so that a settle can be repeated.
--
-- At most one lane of a subscription has a rest. Until it is over, no lane is handed out. Then one message of that lane
-- is: its claim is the probe, and a page that the lane has in hand is that message.
CREATE TABLE {{.Named "position"}} (
    subscription text NOT NULL REFERENCES {{.Named "subscription"}} ON DELETE CASCADE,
    lane smallint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    page bigint,
    owner_token uuid,
    locked_until timestamptz,
    whole boolean NOT NULL DEFAULT false,
    seen {{.Named "seen"}} NOT NULL,
    upto {{.Named "seen"}},
    withheld bigint[] NOT NULL DEFAULT '{}',
    ahead bigint[] NOT NULL DEFAULT '{}',
    rest {{.Named "rest"}},
    PRIMARY KEY (subscription, lane)
) WITH (fillfactor = 20);

-- What subscriptions have passed over because a verb or their retention moved them forward: messages that the tick
-- ended had seen, and began had not, and that were not settled. It outlives the subscription.
CREATE TABLE {{.Named "loss"}} (
    subscription text NOT NULL,
    lane smallint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    began bigint NOT NULL,
    ended bigint NOT NULL,
    messages bigint NOT NULL,
    oldest timestamptz NOT NULL,
    newest timestamptz NOT NULL,
    why text NOT NULL, -- cut, retention, replay or remove
    PRIMARY KEY (subscription, lane, at)
);

-- The dedup keys of topics, and the ids of the messages that have them. xid is the transaction that wrote the message,
-- plus the shift. A key is free again when all have passed the message, see trim_dedup.
CREATE TABLE {{.Named "dedup"}} (
    topic text NOT NULL,
    dedup_key text NOT NULL,
    id uuid NOT NULL,
    xid bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, dedup_key)
);

CREATE INDEX {{.Own "dedup_xid_idx"}} ON {{.Named "dedup"}} (xid);

-- Messages that are due later, see append_due. due_at is when a message goes to the log: scheduled_at, and not before
-- those of its key that were written before it, if its writers take turns (ordered). Ids are as little unique as in the
-- log.
CREATE TABLE {{.Named "later"}} (
    id uuid NOT NULL,
    due_at {{.Named "parked_time"}} NOT NULL,
    scheduled_at {{.Named "parked_time"}} NOT NULL,
    retry_at timestamptz, -- the log has refused it
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ord bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ordered boolean NOT NULL,
    topic text NOT NULL,
    key text,
    headers jsonb,
    payload bytea NOT NULL,
    dedup_key text
);

CREATE INDEX {{.Own "later_id_idx"}} ON {{.Named "later"}} (id);

CREATE INDEX {{.Own "later_due_idx"}} ON {{.Named "later"}} (due_at, ord);

CREATE INDEX {{.Own "later_key_idx"}} ON {{.Named "later"}} (key, due_at) WHERE ordered;

CREATE INDEX {{.Own "later_dedup_idx"}} ON {{.Named "later"}} (topic, dedup_key) WHERE dedup_key IS NOT NULL;

-- Parked messages that keep others of their key from being handed out.
CREATE INDEX {{.Own "parked_blocks_idx"}} ON {{.Parked}} (subscription, concurrency_key)
    WHERE {{.Blocks ""}};

-- Refuses messages that no batch would ever have: their transaction has an id that the newest tick calls ended, as in a
-- cluster in which ids began again. Announces messages, once for each transaction, unless somebody has promised to tick
-- again soon. A transaction that is silent because of that keeps a lock until it ends, which whoever has promised sees.
-- It tests the time after it has the lock: so either it has the lock before the promise ends, or it announces.
-- It runs with its owner's rights, so that producers need none on ticks, and none of
-- them is kept from seeing the newest. It pins no search_path, which would cost each statement of producers as much as
-- all the rest: every name is qualified.
CREATE FUNCTION {{.Named "guard"}}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $txwork$
DECLARE
    own pg_catalog.int8 := pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text::pg_catalog.int8
        OPERATOR(pg_catalog.+) TG_ARGV[0]::pg_catalog.int8;
    is_ended pg_catalog.bool;
    silent_until pg_catalog.timestamptz;
BEGIN
    SELECT own OPERATOR(pg_catalog.<) (t.seen).high AND own OPERATOR(pg_catalog.<>) ALL ((t.seen).open), t.silent_until
    INTO is_ended, silent_until
    FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1;
    IF is_ended THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '{{.Restored}}',
            HINT = '{{.RebaseHint}}';
    ELSIF is_ended IS NULL THEN -- there is no tick, or it is hidden from the owner
        IF {{.HidesTicks}} THEN
            {{.RefusesPart}}
        END IF;
    END IF;
    {{template "turns" .}}
    IF TG_ARGV[1] OPERATOR(pg_catalog.=) 'silent' THEN
        RETURN NULL; -- they are not due
    ELSIF {{.IsSilent}} THEN
        IF pg_catalog.pg_try_advisory_xact_lock_shared({{.QualifiedSilentLock}}) THEN
            IF {{.IsSilent}} THEN
                RETURN NULL;
            END IF;
        END IF;
    END IF;
    PERFORM {{.Announce "''"}};
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "guard"}}() FROM PUBLIC;

-- Sets the shift: in the defaults of xid, in the rules that no row may be copied or invented, and in the guard. The
-- rules are not validated, since they hold of a row only while it is written. Logical replication and restores write as
-- session_replication_role = replica, or before the rules are there.
CREATE FUNCTION {{.Named "shift"}}(shift bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    EXECUTE format('ALTER TABLE {{.Log}}
        ALTER COLUMN xid SET DEFAULT (pg_current_xact_id()::text::bigint + %1$s),
        DROP CONSTRAINT IF EXISTS {{.Own "own_xid"}},
        DROP CONSTRAINT IF EXISTS {{.Own "own_seq"}},
        ADD CONSTRAINT {{.Own "own_xid"}} CHECK (xid = pg_current_xact_id()::text::bigint + %1$s
            OR current_setting(''session_replication_role'') = ''replica'') NOT VALID,
        ADD CONSTRAINT {{.Own "own_seq"}} CHECK (current_setting(''session_replication_role'') = ''replica''
            OR seq = currval(''{{.Named "seq"}}'')) NOT VALID', shift);
    EXECUTE format('ALTER TABLE {{.Named "dedup"}}
        ALTER COLUMN xid SET DEFAULT (pg_current_xact_id()::text::bigint + %s)', shift);
    EXECUTE format('CREATE OR REPLACE TRIGGER {{.Own "guard"}} AFTER INSERT ON {{.Log}}
        FOR EACH STATEMENT EXECUTE FUNCTION {{.Named "guard"}}(%L, ''announce'')', shift::text);
    EXECUTE format('CREATE OR REPLACE TRIGGER {{.Own "later_guard"}} AFTER INSERT ON {{.Named "later"}}
        FOR EACH STATEMENT EXECUTE FUNCTION {{.Named "guard"}}(%L, ''silent'')', shift::text);
    UPDATE {{.Named "state"}} AS s SET shift = $1;
    IF NOT FOUND THEN -- the table was lost, and made anew
        INSERT INTO {{.Named "state"}} (shift) VALUES ($1);
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "shift"}}(bigint) FROM PUBLIC;

SELECT {{.Named "shift"}}(0);
