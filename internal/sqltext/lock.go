package sqltext

import "fmt"

// LockAll is a block of PL/pgSQL that locks tables in a mode, against whoever uses them in whatever order. The argument
// tables is an array of their names in SQL. Of a partitioned table, partitions have to be named, too.
func LockAll(tables, mode string) string {
	return lockAll(tables, fmt.Sprintf("format('LOCK TABLE ONLY %%s IN %s MODE', in_use)", mode))
}

// LockToDrop is LockAll of tables and sequences that are going to be dropped. A transaction that rolls a savepoint back
// keeps the lock of a sequence and not that of its table. LOCK takes no sequences: to set the owner that they have
// changes nothing, and takes the same lock.
func LockToDrop(relations string) string {
	return lockAll(relations, `(SELECT format(CASE c.relkind WHEN 'S' THEN 'ALTER SEQUENCE %s OWNER TO %I'
                        ELSE 'LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE' END, in_use, pg_get_userbyid(c.relowner))
                        FROM pg_class AS c WHERE c.oid = in_use::regclass)`)
}

// lockAll executes the statement that locks the relation in_use.
//
// It waits for one table only while it has locked none, for as long as the lock_timeout of the session says, and then
// for the others for no longer than a moment together. If that is too short, it gives up what it has, and begins with
// the table that was in use: so it comes to lock in the order of those who use them. The wait for the first one has to
// be so long that autovacuum gives way.
//
// PostgreSQL looks for a deadlock once for each wait, when that has taken a deadlock_timeout, and those who wait behind
// the first lock have begun before it was had. So if that took long, it lets them pass and tries again. Otherwise both
// waits end before any of them looks.
func lockAll(tables, statement string) string {
	return fmt.Sprintf(`DECLARE
        tables text[] := %[1]s;
        patience CONSTANT interval := current_setting('lock_timeout');
        moment CONSTANT interval := least(interval '%[3]d milliseconds',
            0.4 * current_setting('deadlock_timeout')::interval);
        began CONSTANT timestamptz := clock_timestamp();
        in_use text;
        until timestamptz;
    BEGIN
        LOOP
            BEGIN
                IF in_use IS NOT NULL THEN
                    until := clock_timestamp() + moment;
                    PERFORM set_config('lock_timeout', CASE WHEN patience = interval '0' THEN '3s'
                        ELSE current_setting('lock_timeout') END, true);
                    EXECUTE %[2]s;
                    IF clock_timestamp() > until THEN
                        RAISE lock_not_available;
                    END IF;
                END IF;
                until := clock_timestamp() + least(nullif(patience, interval '0'), moment);
                FOREACH in_use IN ARRAY tables LOOP
                    PERFORM set_config('lock_timeout', greatest(1,
                        ceil(extract(epoch FROM until - clock_timestamp()) * 1000))::text, true);
                    EXECUTE %[2]s;
                END LOOP;
                EXIT;
            EXCEPTION WHEN lock_not_available THEN -- and nothing is locked any more
                IF patience > interval '0' AND clock_timestamp() - began >= patience THEN
                    RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
                        MESSAGE = format('%%s was in use for more than %%s', in_use, current_setting('lock_timeout')),
                        HINT = 'Do it again when that has ended: nothing of it was done.';
                END IF;
                tables := in_use || array_remove(tables, in_use);
            END;
            PERFORM pg_sleep(0.1 * random());
        END LOOP;
        PERFORM set_config('lock_timeout', (extract(epoch FROM patience) * 1000)::bigint::text, true);
    END;`, tables, statement, lockMoment)
}

// lockMoment is for how many milliseconds others may have to wait in vain.
const lockMoment = 400
