-- Nothing -> Done, in the caller's transaction. A caller that gets 'processed' handles the message in that transaction.
-- Other callers get the reason why they must not, and callers never wait for each other.
--
-- The advisory lock lasts until the transaction ends and excludes every other caller of this function with the same
-- key. So the holder sees, in the next statement's snapshot, what the previous holder committed. Only a Receive writes
-- without this lock; the unique index protects against one whose transaction is still open. The wait for that
-- transaction ends at lock_timeout, in the subtransaction of the inner block, so that the caller's transaction can
-- continue. If a Receive committed between the two statements, the insert does nothing, since the message is Ready.
--
-- A caller that gets 'processed' holds the key until its transaction ends. If its process freezes, the server ends the
-- session: this function bounds the idle time of the transaction, unless the session has a bound already.
--
-- A payload without a hash has that which receive makes of it and the topic: another content under the same id must not
-- pass for a duplicate. The topic is not stored.
--
-- Two keys with the same hash exclude each other, too. The answer 'in_progress' is wrong then, but harmless. The plan
-- settings are for the look-up: its plan is cached, and may be made while the table is empty.
CREATE FUNCTION {{.Function "begin"}}(
    consumer text, source text, message_id text,
    body_hash bytea DEFAULT NULL, payload bytea DEFAULT NULL,
    id uuid DEFAULT NULL,
    topic text DEFAULT NULL
) RETURNS TABLE (answer text, holder uuid, holder_status integer)
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
    own CONSTANT uuid := coalesce($6, {{.NewID}});
    inserted boolean;
BEGIN
    {{.RefusesKey}}
    $4 := {{.Hash}};
    IF NOT pg_try_advisory_xact_lock(hashtextextended(ARRAY[{{.NameLiteral}}, $1, $2, $3]::text COLLATE "C", 0)) THEN
        RETURN QUERY SELECT busy, nobody, 1;
        RETURN;
    END IF;

    RETURN QUERY
    SELECT CASE
               WHEN t.body_hash <> $4 THEN 'hash_mismatch'
               WHEN t.status IN (0, 1) THEN busy
               ELSE 'duplicate'
           END, t.id, t.status::integer
    FROM {{.Table}} AS t
    WHERE t.consumer = $1 AND t.source = $2 AND t.message_id = $3;
    IF FOUND THEN
        RETURN;
    END IF;

    BEGIN
        PERFORM set_config('txwork.announce', 'off', true); -- only a superuser may create a function with this SET
        INSERT INTO {{.Table}} (id, status, attempts, completed_at, consumer, source, message_id, body_hash, payload)
        VALUES (own, 2, 1, clock_timestamp(), $1, $2, $3, $4, $5)
        ON CONFLICT (consumer, source, message_id)
            WHERE consumer IS NOT NULL AND source IS NOT NULL AND message_id IS NOT NULL DO NOTHING;
        inserted := FOUND;
        PERFORM set_config('txwork.announce', '', true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN QUERY SELECT busy, nobody, 0;
        RETURN;
    END;
    IF inserted THEN
        IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
            PERFORM set_config('idle_in_transaction_session_timeout', '{{.IdleTimeout}}', true);
        END IF;
        RETURN QUERY SELECT 'processed', own, 2;
    ELSE
        RETURN QUERY SELECT busy, nobody, 0;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "begin"}}(text, text, text, bytea, bytea, uuid, text) FROM PUBLIC;
