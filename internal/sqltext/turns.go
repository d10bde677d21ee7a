package sqltext

import "fmt"

// MaxTurns is how many locks of keys' writers a transaction may hold: a quarter of the server's shared lock table.
const MaxTurns = "current_setting('max_locks_per_transaction')::integer" +
	" * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4"

// LockKeys is a statement that takes the locks of the writers of several keys, its parameter, before their rows are
// written, in the same order in every transaction. If there are more keys than [MaxTurns], it takes none. writerLock is
// the lock of the key u.key.
func LockKeys(writerLock string) string {
	return Qualified(fmt.Sprintf(`WITH k AS MATERIALIZED (
    SELECT DISTINCT %s AS lock FROM unnest($1::text[]) AS u (key) ORDER BY 1
)
SELECT pg_advisory_xact_lock(k.lock)
FROM k
WHERE (SELECT count(*) FROM k) <= %s`, writerLock, MaxTurns))
}
