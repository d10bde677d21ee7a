package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
)

// A tableLock is a session, or a prepared transaction, whose lock on a table keeps others from reading it.
type tableLock struct {
	Table             string
	PID               *int32 // nil for a prepared transaction
	Prepared          string // its name
	Application, Role string
	State, Query      string
	Lock              string
	Held              bool     // false: it waits, and whoever comes later waits behind it
	Since             *float64 // seconds since its transaction began
	QueryStarted      *float64 // seconds
	Behind            []int32  // the sessions that it waits for
}

// lockHolders says who is in the way of reading a table, or any table of the schema if none is named. The sessions are
// read once for all checks.
func (x *examination) lockHolders(ctx context.Context, table string) (remedy string, holders []Evidence) {
	if x.locks == nil {
		list, err := readRows[tableLock](ctx, x, "table_locks", nil, x.Schema)
		if err != nil {
			return "run it again: who held the lock could not be read: " + oneLine(err.Error()), nil
		}
		x.locks = &list
	}
	var ends []string
	for _, l := range *x.locks {
		if table != "" && l.Table != table && !strings.HasPrefix(l.Table, table+"_") {
			continue
		}
		e := evidence("prepared", l.Prepared, "application", l.Application, "role", l.Role, "state", l.State, "table",
			l.Table, "lock", l.Lock, "held", l.Held)
		if l.PID != nil {
			e = append(evidence("pid", *l.PID), e...)
			ends = append(ends, fmt.Sprintf("SELECT pg_terminate_backend(%d)", *l.PID))
		} else {
			ends = append(ends, "ROLLBACK PREPARED "+postgres.Literal(l.Prepared))
		}
		if len(l.Behind) > 0 {
			e = append(e, evidence("waits_for", fmt.Sprint(l.Behind))...)
		}
		if l.Since != nil {
			e = append(e, evidence("transaction_seconds", seconds(*l.Since))...)
		}
		if l.QueryStarted != nil {
			e = append(e, evidence("query_seconds", seconds(*l.QueryStarted))...)
		}
		holders = append(holders, append(e, evidence("query", oneLine(l.Query))...))
	}
	if len(holders) == 0 {
		return "run it again: whoever held the lock has released it", nil
	}
	return "wait for its transaction to end, or end it: " + ends[0], holders
}
