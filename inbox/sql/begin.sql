-- Nothing -> Done, in the caller's transaction: whoever is told 'processed' runs the message in it. The
-- others are told why not, and nobody waits for anybody.
--
-- The advisory lock lasts until the transaction ends and keeps out every other caller of this function
-- with the same key, so whoever holds it sees, in the next statement's snapshot, what the one before has
-- committed. The unique index decides against the one writer that does not take the lock: a Receive whose
-- transaction is still open. Waiting for that one ends at lock_timeout, in the subtransaction of the inner
-- block, so that the caller's transaction can go on. A Receive that committed between the two statements
-- makes the insert do nothing: its message is Ready.
--
-- Whoever is told 'processed' holds the key until its transaction ends. Should its process freeze, the server ends the
-- session: the transaction is given a bound of its idle time, unless the session has one of its own.
--
-- Two keys of one hash keep each other out, too; then 'in_progress' is not true, and harmless. The plan
-- settings are for the look-up: its plan is kept, and may be made while the table is empty.
CREATE FUNCTION {{.Function "begin"}}(
    consumer text, source text, message_id text,
    body_hash bytea DEFAULT NULL, payload bytea DEFAULT NULL, id uuid DEFAULT gen_random_uuid()
) RETURNS TABLE (answer text, holder uuid, holder_status smallint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $txwork$
#variable_conflict use_column
DECLARE
    busy CONSTANT text := 'in_progress';
    nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    inserted boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(ARRAY[{{.NameLiteral}}, $1, $2, $3]::text COLLATE "C", 0)) THEN
        RETURN QUERY SELECT busy, nobody, 1::smallint;
        RETURN;
    END IF;

    RETURN QUERY
    SELECT CASE
               WHEN t.body_hash <> $4 THEN 'hash_mismatch'
               WHEN t.status IN (0, 1) THEN busy
               ELSE 'duplicate'
           END, t.id, t.status
    FROM {{.Table}} AS t
    WHERE t.consumer = $1 AND t.source = $2 AND t.message_id = $3;
    IF FOUND THEN
        RETURN;
    END IF;

    BEGIN
        PERFORM set_config('txwork.announce', 'off', true); -- a SET of the function needs a superuser to create it
        INSERT INTO {{.Table}} (id, status, attempts, completed_at, consumer, source, message_id, body_hash, payload)
        VALUES ($6, 2, 1, clock_timestamp(), $1, $2, $3, $4, $5)
        ON CONFLICT (consumer, source, message_id)
            WHERE consumer IS NOT NULL AND source IS NOT NULL AND message_id IS NOT NULL DO NOTHING;
        inserted := FOUND;
        PERFORM set_config('txwork.announce', '', true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN QUERY SELECT busy, nobody, 0::smallint;
        RETURN;
    END;
    IF inserted THEN
        IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
            PERFORM set_config('idle_in_transaction_session_timeout', '{{.IdleTimeout}}', true);
        END IF;
        RETURN QUERY SELECT 'processed', $6, 2::smallint;
    ELSE
        RETURN QUERY SELECT busy, nobody, 0::smallint;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "begin"}}(text, text, text, bytea, bytea, uuid) FROM PUBLIC;
