//go:build unix

package torture

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// successorLimit is how long the others may take to do what one process cannot do.
const successorLimit = time.Minute

// unserved is how long ago a lease expired, or a note was due, that somebody should have served.
const unserved = lease

// afterKill is when leases of a process are overdue that was killed, or cannot renew them. To await earlier that they
// are served would show nothing.
const afterKill = lease + unserved + reapEvery

// maintained are the tables that a reaper leads and that lose rows to killed workers.
var maintained = []string{"outbox", "inbox", "timers", "jobs", "outbox_log_parked"}

// awaitServed waits until no lease is left that expired a while ago, of a row or a lane of the log, nor any note that
// was due then. If that takes too long, the run has failed. A reaper that has lost UPDATE and has nothing to do may go
// on leading: it meets the refusal with the first lease that expires.
func (l *lab) awaitServed(ctx context.Context) error {
	var parts []string
	for _, table := range maintained {
		parts = append(parts, fmt.Sprintf("SELECT '%[2]s: lease of ' || id FROM %[1]s.%[2]s WHERE status = 1 AND "+
			"locked_until < clock_timestamp() - $1::bigint * interval '1 microsecond'", l.schema, table))
	}
	for _, table := range []string{"outbox_key_note", "outbox_join_note", "jobs_key_note", "jobs_join_note",
		"outbox_log_parked_key_note"} {
		parts = append(parts, fmt.Sprintf("SELECT '%[2]s: note of ' || at FROM %[1]s.%[2]s WHERE at < "+
			"clock_timestamp() - $1::bigint * interval '1 microsecond'", l.schema, table))
	}
	parts = append(parts, "SELECT 'outbox_log: lane ' || lane || ' of ' || subscription FROM "+l.schema+
		".outbox_log_position WHERE locked_until < clock_timestamp() - $1::bigint * interval '1 microsecond'")
	query := strings.Join(parts, " UNION ALL ")
	for {
		rows, err := l.admin.Query(ctx, query, unserved.Microseconds())
		if err != nil {
			return err
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		switch {
		case err != nil:
			return err
		case len(left) == 0:
			return nil
		case time.Since(l.hit) > successorLimit:
			l.fail("nobody took over what a process cannot do: %s", strings.Join(left[:min(len(left), 5)], "; "))
			return nil
		}
		time.Sleep(reapEvery)
	}
}
