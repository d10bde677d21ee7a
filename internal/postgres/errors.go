package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/contain"
)

// Sentinels are the errors of package workqueue that [Sentinels.Explain] wraps.
type Sentinels struct{ ReadOnly, PoolMode, SchemaVersion, Session error }

// Explain adds what to do to database errors, of any driver, that have a known remedy.
func (s Sentinels) Explain(err error) error {
	if explained, ok := s.explainSession(err); ok {
		return explained
	}
	pg, ok := contain.As[*pgconn.PgError](err)
	if !ok {
		if pg = (&pgconn.PgError{Code: State(err)}); pg.Code == "" {
			return err
		}
		pg.Message = err.Error()
	}
	switch {
	case IsReadOnly(err):
		return fmt.Errorf("txwork: %w: connect to the primary: %w", s.ReadOnly, err)
	case pg.Code == "08P01" && strings.Contains(pg.Message, "statement pooling mode"): // from PgBouncer
		return fmt.Errorf("txwork: %w: it is in statement mode, which has no transactions: set pool_mode = "+
			"transaction or session: %w", s.PoolMode, err)
	case pg.Code == "26000", pg.Code == "42P05": // invalid_sql_statement_name, duplicate_prepared_statement
		return fmt.Errorf("txwork: %w: it runs prepared statements in other sessions than those that have them: add "+
			"default_query_exec_mode=exec to the pool's URL, or have it track them (max_prepared_statements, since "+
			"PgBouncer 1.21): %w", s.PoolMode, err)
	}
	switch pg.Code {
	case "42P01", "3F000", "42883": // undefined table, schema, function
		return fmt.Errorf("txwork: %w: %s: %w", s.SchemaVersion, create(pg), err)
	}
	return err
}

// IsStale tells whether a statement failed because it was prepared before DDL that changed the types of its result. It
// had no effect, and pgx prepares it again the next time. The code alone only says that something is not supported.
func IsStale(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return ok && pg.Code == "0A000" && pg.Routine == "RevalidateCachedQuery"
}

// maxStale is how many statements of one piece of work, on how many connections, may have been prepared before DDL.
const maxStale = 8

// Renewed runs work, and runs it again as long as one of its statements was stale, see [IsStale]. The work is a whole
// transaction and may run more than once.
func Renewed(work func() error) (err error) {
	for range maxStale {
		if err = work(); !IsStale(err) {
			break
		}
	}
	return err
}

// IsReadOnly tells whether a server, or a session, refused to write: it is a standby, or is set to be read-only.
func IsReadOnly(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return State(err) == "25006" || ok && isStandby(pg) // read_only_sql_transaction
}

// isStandby reports that a standby refused to begin a transaction READ WRITE. The code alone only says that something
// is not supported, but among the boolean settings of a transaction only this one reports it.
func isStandby(pg *pgconn.PgError) bool {
	return pg.Code == "0A000" && pg.Routine == "call_bool_check_hook"
}

// IsForbidden tells whether the role lacks a privilege, or sees only a part of the rows where all are needed. Another
// role may be able to do what this one may not.
func IsForbidden(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return ok && pg.Code == "42501" // insufficient_privilege
}

// notItsOwn are the classes of SQLSTATEs that have the same cause whichever process runs a statement: rows (22, 23, 27,
// 44, P0), locks and timeouts (40, 55, 57), limits (54), and the server (08, 25, 53, 58, XX).
var notItsOwn = []string{"08", "22", "23", "25", "27", "40", "44", "53", "54", "55", "57", "58", "P0", "XX"}

// IsOwn tells whether the cause of an error may be this process's own, so that another process can do what this one
// cannot: its role lacks a right, or its version does not fit the schema.
func IsOwn(err error) bool {
	pg, ok := contain.As[*pgconn.PgError](err)
	return ok && len(pg.Code) == 5 && !slices.Contains(notItsOwn, pg.Code[:2])
}

// IsTaken reports that another row has a unique value that the statement wanted. The transaction changed nothing.
func IsTaken(err error) bool { return State(err) == "23505" }

// State is the SQLSTATE of an error of any driver. pgx and lib/pq have a method for it, bun's pgdriver has another. It
// is empty if there is none.
func State(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := contain.As[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	if e, ok := contain.As[interface {
		error
		Field(byte) string
	}](err); ok {
		return e.Field('C')
	}
	return ""
}
