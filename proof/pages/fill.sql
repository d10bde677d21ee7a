-- Functions that make up values from numbers. The planner inlines them, as nothing in them is less than immutable.
CREATE SCHEMA fill;

-- A UUID of version 7, of a millisecond.
CREATE FUNCTION fill.id(ms bigint, salt text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE
RETURN (lpad(to_hex(ms), 12, '0') || '7' || substr(md5(salt || n::text), 1, 3)
    || '8' || substr(md5(salt || n::text), 4, 15))::uuid;

-- A number below another, small ones more often.
CREATE FUNCTION fill.pick(n bigint, below int) RETURNS int LANGUAGE sql IMMUTABLE
RETURN floor(below * power((n * 2654435761 % 1000003) / 1000003.0::float8, 2))::int;

-- The owner token of one of twenty processes.
CREATE FUNCTION fill.owner(n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE
RETURN (lpad(to_hex($millisecond + n % 20), 12, '0') || '70008000000000000000')::uuid;

CREATE FUNCTION fill.error(n bigint) RETURNS text LANGUAGE sql IMMUTABLE
RETURN replace((ARRAY['card ~ is declined: code 51', 'smtp 550: mailbox ~ unavailable',
    'POST https://erp.example/orders: 422 the customer ~ is unknown', 'context deadline exceeded',
    'dial tcp 10.0.~.7:5432: connect: connection refused', 'json: cannot unmarshal string into field amount',
    E'panic: runtime error: index out of range [~]\ngoroutine 17 [running]:\nmain.charge()',
    'order ~ has no lines'])[1 + fill.pick(n, 8)], '~', (n % 1000)::text);

CREATE FUNCTION fill.payload(n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE
RETURN decode('{"order": ' || n::text || ', "amount": "' || (n % 900)::text || '.00", "currency": "EUR"}', 'escape');

-- The rows of a table that have ended, from a number to another, out of so many, the oldest first: when each was
-- written, and when it ended if it is done, a dead letter (2 of 97), or cancelled. Every third row has an ordered key.
CREATE FUNCTION fill.ended(first bigint, last bigint, rows bigint, keys bigint,
    OUT n bigint, OUT ms bigint, OUT at timestamptz, OUT done timestamptz, OUT failed timestamptz,
    OUT cancelled timestamptz, OUT key text) RETURNS SETOF record LANGUAGE sql AS $$
    SELECT i, m, t, t + interval '2 seconds',
        CASE WHEN i % 97 < 2 OR i % 997 = 5 THEN t + interval '2 seconds' END,
        CASE WHEN i % 97 >= 2 AND i % 997 = 5 THEN t + interval '1 second' END,
        CASE WHEN i % 3 = 0 THEN 'customer-' || i % keys END
    FROM generate_series(first, last) AS i,
        LATERAL (SELECT $millisecond - (rows - i + 2) * 604800000::bigint / rows AS m) AS x,
        LATERAL (SELECT to_timestamp(m / 1000.0) AS t) AS y
$$;

-- The rows that live: two of each ordered key, of which the second waits, and others that are ready (two of ten),
-- scheduled (seven), or in progress (one, of which every tenth has lost its lease). A key in fifty has no first row: a
-- dead letter may block it.
CREATE FUNCTION fill.live(keys bigint, others bigint,
    OUT n bigint, OUT ms bigint, OUT at timestamptz, OUT due timestamptz, OUT locked timestamptz, OUT waiting boolean,
    OUT key text)
RETURNS SETOF record LANGUAGE sql AS $$
    SELECT i, $millisecond - i % 7200 * 1000, now() - i % 7200 * interval '1 second',
        now() - i % 3600 * interval '1 second', NULL::timestamptz,
        i % 2 = 1, 'customer-' || i / 2
    FROM generate_series(0, 2 * keys - 1) AS i
    WHERE i % 100 <> 0
    UNION ALL
    SELECT 2 * keys + i, $millisecond - i % 7200 * 1000, now() - i % 7200 * interval '1 second',
        now() + (CASE WHEN i % 10 BETWEEN 2 AND 8 THEN 1 + i % 90000 ELSE -(i % 600) END) * interval '1 second',
        CASE WHEN i % 100 = 99 THEN now() WHEN i % 10 = 9 THEN now() + interval '12 hours' END, false, NULL
    FROM generate_series(0, others - 1) AS i
$$;
