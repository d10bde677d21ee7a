package sqltext

import "fmt"

// LockAll is a block of PL/pgSQL that locks tables in a mode, against whoever uses them in whatever order. The argument
// tables is an array of their names in SQL. Of a partitioned table, partitions have to be named, too.
//
// It waits for one table only while it has locked none, for as long as the lock_timeout of the session says, and then
// for the others for no longer than a moment together. If that is too short, it gives up what it has, and begins with
// the table that was in use. So nobody who holds what it waits for waits for it as long as a deadlock_timeout. The wait
// for the first one has to be so long that autovacuum gives way.
func LockAll(tables, mode string) string {
	return fmt.Sprintf(`DECLARE
        tables CONSTANT text[] := %[1]s;
        patience CONSTANT interval := current_setting('lock_timeout');
        began CONSTANT timestamptz := clock_timestamp();
        in_use text;
        until timestamptz;
    BEGIN
        LOOP
            BEGIN
                IF in_use IS NOT NULL THEN
                    PERFORM set_config('lock_timeout', CASE WHEN patience = interval '0' THEN '3s'
                        ELSE current_setting('lock_timeout') END, true);
                    EXECUTE format('LOCK TABLE ONLY %%s IN %[2]s MODE', in_use);
                END IF;
                until := clock_timestamp() + least(nullif(patience, interval '0'), interval '%[3]d milliseconds');
                FOREACH in_use IN ARRAY tables LOOP
                    PERFORM set_config('lock_timeout', greatest(1,
                        ceil(extract(epoch FROM until - clock_timestamp()) * 1000))::text, true);
                    EXECUTE format('LOCK TABLE ONLY %%s IN %[2]s MODE', in_use);
                END LOOP;
                EXIT;
            EXCEPTION WHEN lock_not_available THEN -- and nothing is locked any more
                IF patience > interval '0' AND clock_timestamp() - began >= patience THEN
                    RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
                        MESSAGE = format('%%s was in use for more than %%s', in_use, current_setting('lock_timeout')),
                        HINT = 'Do it again when that has ended: nothing of it was done.';
                END IF;
            END;
            PERFORM pg_sleep(0.1 * random());
        END LOOP;
        PERFORM set_config('lock_timeout', (extract(epoch FROM patience) * 1000)::bigint::text, true);
    END;`, tables, mode, lockMoment)
}

// lockMoment is for how many milliseconds others may have to wait in vain.
const lockMoment = 400
