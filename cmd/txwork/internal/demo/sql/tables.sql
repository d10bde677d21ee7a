-- The application's own tables.

CREATE TABLE {{schema}}.accounts (
    id text COLLATE "C" PRIMARY KEY,
    opening bigint NOT NULL,
    balance bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE {{schema}}.transfers (
    id text PRIMARY KEY,
    debit text NOT NULL,
    credit text NOT NULL,
    amount bigint NOT NULL CHECK (amount > 0),
    message uuid NOT NULL
);

-- The workers write one row for each message that they apply. The message has no constraint on purpose: a second
-- application must be visible and not fail.
CREATE TABLE {{schema}}.ledger (
    message uuid NOT NULL,
    transfer text NOT NULL,
    debit text NOT NULL,
    credit text NOT NULL,
    amount bigint NOT NULL,
    worker text NOT NULL,
    attempt integer NOT NULL
);

-- Settles that were refused because their claim was no longer current.
CREATE TABLE {{schema}}.refusals (
    message uuid NOT NULL,
    worker text NOT NULL,
    attempt integer NOT NULL
);
