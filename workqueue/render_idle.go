package workqueue

import "fmt"

// idleBound is a statement of PL/pgSQL for functions whose caller may stay in its transaction: it bounds how long the
// session may be idle in this transaction. The server then ends the session, and so frees what the function has locked.
// A bound of the session that is shorter stays as it is. The argument is the bound as an interval, in SQL.
func idleBound(most string) string {
	return fmt.Sprintf(`PERFORM set_config('idle_in_transaction_session_timeout', ceil(1000 * extract(epoch FROM least(
        nullif(current_setting('idle_in_transaction_session_timeout')::interval, interval '0'), %s)))::bigint::text,
        true);`, most)
}
