package fault

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
)

// IsConflict reports a serialization failure, a deadlock or DDL since the statement was prepared: the transaction
// changed nothing and may simply run again.
func IsConflict(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01") || postgres.IsStale(err)
}

// IsRefused reports that the server has answered that the transaction failed. After any other error it may have
// committed.
func IsRefused(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return ok && pg.SeverityUnlocalized == "ERROR"
}

// IsLocked reports that a statement gave up waiting for a row that another session has locked.
func IsLocked(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// IsUntranslatable reports that the encoding of the database lacks a character of a text.
func IsUntranslatable(err error) bool { return postgres.State(err) == "22P05" }

// A Cause is the kind of reason for which the settle of several rows failed.
type Cause int

const (
	Away    Cause = iota // not because of its rows: the database is unavailable or full, or resolves a conflict
	Waited               // it waited for a lock or took too long, or the server ran out of memory
	Refused              // because of its rows, or of the role's privileges
)

// CauseOf returns the cause of a failed settle.
func CauseOf(err error) Cause {
	pg, ok := contain.As[*pgconn.PgError](err)
	if !ok || len(pg.Code) != 5 || contain.Is(err, ErrReadOnly) {
		return Away
	}
	if _, connecting := contain.As[*pgconn.ConnectError](err); connecting {
		return Away
	}
	switch pg.Code {
	case "55P03", "57014", "53200": // lock_not_available, query_canceled, out_of_memory
		return Waited
	}
	switch pg.Code[:2] {
	case "08", "25", "40", "53", "57", "58": // connections, read-only servers, conflicts, resources, shutdowns, I/O
		return Away
	}
	return Refused
}

// Type is an operation's error as metrics and spans report it: one of few values. It is empty without an error.
func Type(err error) string {
	if err == nil {
		return ""
	}
	if pg, ok := contain.As[*pgconn.PgError](err); ok {
		return pg.Code
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{ErrLeaseLost, "lease_lost"}, {ErrGone, "gone"}, {ErrInvalid, "invalid"},
		{context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"},
	} {
		if contain.Is(err, known.err) {
			return known.name
		}
	}
	if _, ok := contain.As[*pgconn.ConnectError](err); ok {
		return "connect"
	}
	return "_OTHER"
}
