-- A join counts how its members settle. Every UPDATE of it but the one that ends it is heap-only, since
-- no column that it sets stands in an index: a wide fan-in updates one row often.
--
-- Only folds count and end, see join_fold. Applications start, extend, cancel and purge joins, and hold the join's row
-- until they commit.
CREATE TABLE {{.Join}} (
    id uuid NOT NULL,
    status smallint NOT NULL DEFAULT 0,
    policy smallint NOT NULL DEFAULT 0,
    expected integer NOT NULL DEFAULT 0,
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    late integer NOT NULL DEFAULT 0,
    on_complete uuid,
    on_fail uuid,
    deadline timestamptz,
    label text,
    last_error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz,
    look_at timestamptz NOT NULL DEFAULT now() + interval '1 minute', -- when the sweep looks at it
    retention interval NOT NULL, -- how long it is kept after its end
    CONSTRAINT {{.Named "join_pkey"}} PRIMARY KEY (id),
    CONSTRAINT {{.Named "join_check"}} CHECK (
        status BETWEEN 0 AND 3
        AND policy BETWEEN 0 AND 2
        AND (status = 0) = (completed_at IS NULL)
        AND succeeded >= 0 AND failed >= 0 AND late >= 0
        AND succeeded + failed <= expected AND late <= expected
        AND retention BETWEEN interval '0' AND interval '1000 years' -- an end that cannot be computed never comes
        AND (deadline IS NULL OR isfinite(deadline))
    )
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE {{.Join}} IS 'txwork joins of {{.Name}}. status: 0 pending, 1 completed, 2 failed, 3 cancelled; policy: 0 wait for all, 1 fail fast, 2 any outcome';

CREATE UNIQUE INDEX {{.Named "join_done_idx"}} ON {{.Join}} (on_complete) WHERE on_complete IS NOT NULL;

CREATE UNIQUE INDEX {{.Named "join_fail_idx"}} ON {{.Join}} (on_fail) WHERE on_fail IS NOT NULL;

CREATE INDEX {{.Named "join_look_idx"}} ON {{.Join}} (look_at);

CREATE INDEX {{.Named "join_end_idx"}} ON {{.Join}} (completed_at) WHERE completed_at IS NOT NULL;

CREATE INDEX {{.Named "join_label_idx"}} ON {{.Join}} (label, id) WHERE label IS NOT NULL;

-- No foreign keys: members outlive neither purge nor an ack that deletes, and every INSERT would lock the
-- join's row.
CREATE TABLE {{.Member}} (
    member_id uuid NOT NULL,
    join_id uuid NOT NULL,
    outcome smallint, -- 1 succeeded, 2 failed: what counted while the join was pending
    late smallint,    -- the same, after the join had ended; 0: it was redriven since
    CONSTRAINT {{.Named "join_member_pk"}} PRIMARY KEY (member_id, join_id),
    CONSTRAINT {{.Named "join_member_ck"}} CHECK (outcome IN (1, 2) AND late IN (0, 1, 2))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX {{.Named "join_member_ix"}} ON {{.Member}} (join_id);

-- What a fold has to look at, from the time at on: a member that was settled, redriven or deleted; or a join. gone is
-- what counts should the member's row be gone by then. A note is written in the transaction that it is about, and
-- deleted in the one that applies it.
CREATE TABLE {{.Note}} (
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    member_id uuid,
    gone smallint,
    join_id uuid,
    CONSTRAINT {{.Named "join_note_ck"}} CHECK (isfinite(at))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- A publication, somebody else's FOR ALL TABLES too, would otherwise have PostgreSQL refuse to delete notes.
ALTER TABLE {{.Note}} REPLICA IDENTITY FULL;

CREATE INDEX {{.Named "join_note_idx"}} ON {{.Note}} (at);

-- Where the sweep goes on with its look at rows that wait.
CREATE TABLE {{.Cursor}} (
    one boolean DEFAULT true,
    row_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    swept_at timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT {{.Named "join_cursor_pk"}} PRIMARY KEY (one),
    CONSTRAINT {{.Named "join_cursor_ck"}} CHECK (one)
) WITH (fillfactor = 10);

INSERT INTO {{.Cursor}} DEFAULT VALUES;
