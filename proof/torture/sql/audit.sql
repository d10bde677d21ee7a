-- Every version of every row, appended in the transaction that writes it, so this table has exactly the committed
-- versions. The row's lock is held while its version is appended, so seq orders the versions of a row. There is no
-- index: nothing reads the table before the end, and every write would pay for an index.
CREATE TABLE {{.Schema}}.row_changes (
    seq bigserial NOT NULL,
    tbl text NOT NULL,
    id uuid NOT NULL,
    op "char" NOT NULL,
    old_status smallint NOT NULL,
    old_token uuid,
    status smallint NOT NULL,
    waiting boolean NOT NULL,
    cancelled boolean NOT NULL,
    token uuid,
    attempts integer NOT NULL,
    max_attempts integer NOT NULL,
    due_at timestamptz NOT NULL,
    fire_at timestamptz,
    locked_until timestamptz,
    generation integer NOT NULL,
    name text, -- of inserts only
    key text, -- of inserts only
    app text NOT NULL,
    xid bigint NOT NULL,
    txn_at timestamptz NOT NULL,
    at timestamptz NOT NULL
);

-- Handlers write here in the transaction that settles their row. There is no unique key, so that a second effect is
-- visible.
CREATE TABLE {{.Schema}}.effects (
    tbl text NOT NULL,
    name text NOT NULL,
    attempt integer NOT NULL,
    app text NOT NULL DEFAULT current_setting('application_name'),
    xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);
