package sqltext

import "fmt"

// RefuseSession is a statement of PL/pgSQL that refuses sessions in which what a function does would fail at random, or
// leave the notes of triggers unwritten.
func RefuseSession(what string) string {
	return fmt.Sprintf(`IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = '%s needs READ COMMITTED, and triggers that run',
            HINT = 'Set the isolation level of the transaction, and session_replication_role to its default.';
    END IF;`, what)
}

// IdleBound is a statement of PL/pgSQL for functions whose caller may stay in its transaction: it bounds how long the
// session may be idle in this transaction. The server then ends the session, and so frees what the function has locked.
// A bound of the session that is shorter stays as it is. The argument is the bound as an interval, in SQL.
func IdleBound(most string) string {
	return fmt.Sprintf(`PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), %s)))::bigint::text,
        true);`, most)
}
