-- Frees a job's unique key when the job enters an ended state that does not hold the key, or starts, if it holds the
-- key only until then. It runs in the transaction of the settle or the claim: an insert that waits for the key in the
-- unique index continues when that commits. The row keeps the key in freed_key, with which a redrive takes it again.
-- Acks have freed the key in their own UPDATE, see Spec.KeptColumn: this is for what is rarer, and for SQL of users.
--
-- A BEFORE trigger would save the second version of the row, but it would make every update of every job, claims and
-- renewals included, lock the row first. This trigger costs jobs without a key only the test of WHEN. The test is
-- short, because every settle parses it anew; the function itself checks which states hold the key.
CREATE FUNCTION {{.Function "free_key"}}() RETURNS trigger
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    IF NEW.status = 1 OR coalesce(NEW.unique_states::integer, 0) & (1 << NEW.status::integer) = 0 THEN
        UPDATE {{.Table}} AS t
        SET unique_key = NULL, freed_key = CASE WHEN NEW.status <> 2 THEN t.unique_key END
        WHERE t.id = OLD.id;
    END IF;
    RETURN NULL;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "free_key"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "free_key"}} AFTER UPDATE OF completed_at ON {{.Table}}
FOR EACH ROW WHEN (NEW.completed_at IS NOT NULL AND NEW.unique_key IS NOT NULL)
EXECUTE FUNCTION {{.Function "free_key"}}();

-- Only a claim changes the attempts of a row in progress.
CREATE TRIGGER {{.Named "start_key"}} AFTER UPDATE OF attempts ON {{.Table}}
FOR EACH ROW WHEN (NEW.unique_states = {{.HeldUntilStart}} AND NEW.unique_key IS NOT NULL AND NEW.status = 1)
EXECUTE FUNCTION {{.Function "free_key"}}();

-- Frees the key of a running job for a job that its own transaction writes, see Delivery.Tx: a job may enqueue its
-- successor. The transaction is marked with the id of the job that it settles. Until it commits, the index has others
-- that want the key wait; if it does not, the job still holds its key. The job's row is locked only from here on, so
-- that its lease is renewed as long as possible.
CREATE FUNCTION {{.Function "chain_key"}}(key text) RETURNS void
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    UPDATE {{.Table}} AS t SET unique_key = NULL, freed_key = t.unique_key
    WHERE t.unique_key = $1 AND t.id::text = current_setting('txwork.claim_tx') AND t.status = 1;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "chain_key"}}(text) FROM PUBLIC;

-- Refuses a key that is in none of the forms of Go and jobs_enqueue, whoever writes it: it would meet no other. The
-- condition of the trigger is all that it costs a job without a key, and is therefore no longer than this.
CREATE FUNCTION {{.Function "check_key"}}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    own CONSTANT text := substr(NEW.unique_key, length(NEW.kind) + 4);
BEGIN
    IF (strpos(NEW.kind, {{.KindEnd}}) = 0
        AND substr(NEW.unique_key, 3, length(NEW.kind) + 1) = NEW.kind || {{.KindEnd}}
        AND CASE left(NEW.unique_key, 2)
            WHEN 'u:' THEN octet_length(own) BETWEEN 1 AND {{.MaxKey}}
            WHEN 'f:' THEN own ~ '^[A-Za-z0-9_-]{43}$'
            WHEN 'a:' THEN own ~ '^[A-Za-z0-9_-]{43}$'
        END) IS NOT TRUE
    THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', COLUMN = 'unique_key',
            MESSAGE = 'unique_key of {{.Name}} must be u:, f: or a:, the kind, the character U+001F, and a key or hash',
            HINT = 'Enqueue the job by {{.Name}}_enqueue, which makes the key of unique_key or unique_fields.';
    END IF;
    IF coalesce(NEW.unique_states, 0) NOT IN ({{.UniqueStates}}) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', COLUMN = 'unique_states',
            MESSAGE = format('unique_states of {{.Name}} is %s, which is no set of states', NEW.unique_states),
            HINT = 'Enqueue the job by {{.Name}}_enqueue, which takes unique_while and unique_until.';
    END IF;
    IF current_setting('txwork.claim_tx', true) <> '' THEN
        PERFORM {{.Function "chain_key"}}(NEW.unique_key);
    END IF;
    RETURN NEW;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "check_key"}}() FROM PUBLIC;

CREATE TRIGGER {{.Named "check_key"}} BEFORE INSERT ON {{.Table}}
FOR EACH ROW WHEN (NEW.unique_key IS NOT NULL)
EXECUTE FUNCTION {{.Function "check_key"}}();
