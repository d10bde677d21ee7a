package postgres

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/contain"
)

// sessionMark begins the text by which [FitSession] refuses a session.
const sessionMark = "txwork refuses the session: "

// FitSession is a condition in SQL that is true in a session in which statements and triggers mean what they say. It
// fails in one whose search_path names a schema before pg_catalog, since any function, operator or type there would
// take the place of PostgreSQL's; and in one with session_replication_role = replica, where triggers do not run.
//
// Nothing in it can be replaced by such a schema, and it reads only settings. The server evaluates constants while it
// plans, so the text that cannot be cast is not one.
const (
	FitSession = "CASE WHEN " + pathReplaces + " OR " + inReplica + " THEN " + refuse +
		", ', search_path is ', pg_catalog.current_setting('search_path'))::int END IS NULL"

	// RunsTriggers is the second half of FitSession, for statements that name the schema of everything that they use.
	RunsTriggers = "CASE WHEN " + inReplica + " THEN " + refuse + ")::int END IS NULL"

	// SelectFit is a statement that fails in a session that does not fit.
	SelectFit = "SELECT WHERE " + FitSession
)

// PinReads are the columns of a SELECT that make a transaction read by indexes: the planner would choose a sequential
// scan for a table that was never analysed, however large it is. JIT is off because a bounded read takes less time than
// compiling it. The planner compiles one whose estimates are high: they are for the whole table, and that of a small
// table without an index is as high while sequential scans are off.
const PinReads = "pg_catalog.set_config('enable_seqscan', 'off', true), " +
	"pg_catalog.set_config('enable_bitmapscan', 'off', true), pg_catalog.set_config('jit', 'off', true)"

const (
	pathReplaces = `pg_catalog.int4gt(pg_catalog.array_position(pg_catalog.current_schemas(false), 'pg_catalog'), 1)`
	inReplica    = `pg_catalog.texteq(pg_catalog.current_setting('session_replication_role'), 'replica')`
	refuse       = "pg_catalog.concat('" + sessionMark + "session_replication_role is '," +
		" pg_catalog.current_setting('session_replication_role')"
)

// simpleNeeds is what pgx says before the setting that the simple protocol needs.
const simpleNeeds = "simple protocol queries must be run with "

// explainSession explains the error with which a session was refused, whatever the driver made of it.
func (s Sentinels) explainSession(err error) (explained error, ok bool) {
	if err != nil && s.Session != nil && !contain.Is(err, s.Session) {
		if _, setting, found := strings.Cut(err.Error(), simpleNeeds); found {
			return fmt.Errorf("txwork: %w: add %s to the connection string: %w", s.Session, setting, err), true
		}
	}
	if State(err) != "22P02" || s.Session == nil || contain.Is(err, s.Session) {
		return nil, false
	}
	_, settings, found := strings.Cut(err.Error(), sessionMark)
	if !found {
		return nil, false
	}
	advice := "take pg_catalog out of its search_path, or name it first: a schema before it replaces PostgreSQL's own " +
		"functions"
	if strings.HasPrefix(settings, "session_replication_role is replica") {
		advice = "set session_replication_role to origin: without triggers, order, limits, joins and notifications " +
			"would be off"
	}
	return fmt.Errorf("txwork: %w: %s: %w", s.Session, advice, err), true
}
