-- A join counts how its members settle. Every UPDATE except the one that ends the join is heap-only, since it sets no
-- indexed column: a join with many members updates one row often.
--
-- Only folds count members and end joins, see join_fold. Applications start, extend, cancel and purge joins, and hold
-- the join's row until they commit.
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
    deadline {{.Time}},
    label text,
    last_error text,
    created_at {{.Time}} NOT NULL DEFAULT now(),
    completed_at {{.Time}},
    look_at {{.Time}} NOT NULL DEFAULT now() + interval '1 minute', -- when the sweep looks at it
    retention interval NOT NULL, -- how long it is kept after its end
    CONSTRAINT {{.Named "join_pkey"}} PRIMARY KEY (id),
    CONSTRAINT {{.Named "join_check"}} CHECK (
        status BETWEEN 0 AND 3
        AND policy BETWEEN 0 AND 2
        AND (status = 0) = (completed_at IS NULL)
        AND succeeded >= 0 AND failed >= 0 AND late >= 0
        AND succeeded + failed <= expected AND late <= expected
        AND retention BETWEEN interval '0' AND interval '1000 years' -- end.sql must be able to add it to now
    )
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE {{.Join}} IS 'txwork joins of {{.Name}}. status: 0 pending, 1 completed, 2 failed, 3 cancelled; '
    'policy: 0 wait for all, 1 fail fast, 2 any outcome';

CREATE UNIQUE INDEX {{.Named "join_done_idx"}} ON {{.Join}} (on_complete) WHERE on_complete IS NOT NULL;

CREATE UNIQUE INDEX {{.Named "join_fail_idx"}} ON {{.Join}} (on_fail) WHERE on_fail IS NOT NULL;

CREATE INDEX {{.Named "join_look_idx"}} ON {{.Join}} (look_at);

CREATE INDEX {{.Named "join_end_idx"}} ON {{.Join}} (completed_at) WHERE completed_at IS NOT NULL;

CREATE INDEX {{.Named "join_label_idx"}} ON {{.Join}} (label, id) WHERE label IS NOT NULL;

-- There are no foreign keys: a row may be purged, or deleted by its ack, before its membership, and every INSERT would
-- lock the join's row.
CREATE TABLE {{.Member}} (
    member_id uuid NOT NULL,
    join_id uuid NOT NULL,
    outcome smallint, -- 1 succeeded, 2 failed: counted while the join was pending
    late smallint,    -- the same, counted after the join had ended; 0: the row was redriven since
    CONSTRAINT {{.Named "join_member_pk"}} PRIMARY KEY (member_id, join_id),
    CONSTRAINT {{.Named "join_member_ck"}} CHECK (outcome IN (1, 2) AND late IN (0, 1, 2))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX {{.Named "join_member_ix"}} ON {{.Member}} (join_id);

-- What a fold has to look at, once the time at is reached: a member that was settled, redriven or deleted; or a join.
-- gone is the outcome that counts if the member's row is gone by then. A note is written in the transaction of the
-- change, and deleted in the one that applies it.
CREATE TABLE {{.Note}} (
    at {{.Time}} NOT NULL DEFAULT clock_timestamp(),
    member_id uuid,
    gone smallint,
    join_id uuid
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Without a replica identity, PostgreSQL refuses to delete notes as soon as a publication contains the table, even if
-- that is an unrelated one FOR ALL TABLES.
ALTER TABLE {{.Note}} REPLICA IDENTITY FULL;

CREATE INDEX {{.Named "join_note_idx"}} ON {{.Note}} (at);

-- Where the next sweep of waiting rows continues.
CREATE TABLE {{.Cursor}} (
    one boolean DEFAULT true,
    row_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    swept_at timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT {{.Named "join_cursor_pk"}} PRIMARY KEY (one),
    CONSTRAINT {{.Named "join_cursor_ck"}} CHECK (one)
) WITH (fillfactor = 10);

INSERT INTO {{.Cursor}} DEFAULT VALUES;
