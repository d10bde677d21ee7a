package sqltext

import "fmt"

// LogRestored asks whether an outbox that is a log, with these tables of ticks and state, is in a cluster whose ids
// began again: it has another identifier, or the next id is one that a tick has seen, as in a cluster that was copied
// from the same one before.
func LogRestored(tick, state string) string {
	return fmt.Sprintf(`SELECT s.system <> c.system_identifier
            OR pg_snapshot_xmax(pg_current_snapshot())::text::bigint + s.shift
                < (SELECT (t.seen).high FROM %s AS t ORDER BY t.n DESC LIMIT 1)
        FROM %s AS s, pg_control_system() AS c`, tick, state)
}
