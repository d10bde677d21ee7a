// Package conformance is the contract of a work-queue table, written as tests.
//
// [Run] creates the table of any [workqueue.Spec], with whatever triggers a domain gives it, and checks every
// transition and invariant through every way in: pgx, database/sql and sqlx transactions, the table's SQL functions
// called by plain SQL, and [workqueue.Table.On] a pool. It knows nothing of the domains; each domain runs it over its
// own table.
//
// The SQL functions pass the tests that pgx passes, but for those in [onlyInGo]; the lists in this file say which tests
// run where. Ways that hardly differ from others run all tests only at full size (see package pgtest).
// Every way has its own schema and runs in parallel with the others. Nothing waits for time to pass: due times and
// leases are moved by SQL, and the database's clock decides.
package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A Case is a table under test.
type Case struct {
	// Spec is the table. Its schema is replaced by the test's own.
	Spec workqueue.Spec

	// Values returns the domain columns of the n-th row, in the order of Spec.Columns. Rows of different n differ in
	// the Unique columns, and the same n always gives the same values.
	Values func(n int) []any

	// Samples are a value of each column, by its name, see [Sample].
	Samples map[string]Sample

	// Lanes are two different lanes, in the order of Spec.Lanes, if the Spec has lanes. The suite overwrites the lane
	// columns of Values with them.
	Lanes [2][]any

	// DDL renders the table in a schema together with what its domain adds: triggers, indexes, further tables. The
	// result has to fit Spec. Default: [workqueue.Spec.DDL] of the Spec, which renders only the core.
	DDL func(schema string) (up, down string, err error)
}

// ddl renders the table in a schema.
func (c Case) ddl(schema string) (up, down string, err error) {
	if c.DDL != nil {
		return c.DDL(schema)
	}
	c.Spec.Schema = schema
	return c.Spec.DDL()
}

// Run checks the table of c through every way in.
func Run(t *testing.T, c Case) {
	seen := &names{}
	t.Cleanup(func() { seen.compare(t, c) })
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := newSuite(t, c, w)
			s.seen = seen
			each(s, groups(testsOf(c, w)), group.name, func(s *suite, g group) {
				each(s, g.tests, test.sentence, runOnEmptyTable)
			})
		})
	}
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		for _, test := range sessionTests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(t, c)
			})
		}
	})
}

// A test checks one sentence of the contract. The part of its name before the slash is its topic.
type test struct {
	name string
	run  func(*suite)
}

func (t test) topic() string    { topic, _, _ := strings.Cut(t.name, "/"); return topic }
func (t test) sentence() string { _, sentence, _ := strings.Cut(t.name, "/"); return sentence }

func runOnEmptyTable(s *suite, t test) {
	s.exec("DELETE FROM $T")
	t.run(s)
}

// A group is the tests of one topic.
type group struct {
	topic string
	tests []test
}

func (g group) name() string { return g.topic }

func groups(tests []test) (list []group) {
	for _, t := range tests {
		i := slices.IndexFunc(list, func(g group) bool { return g.topic == t.topic() })
		if i < 0 {
			i = len(list)
			list = append(list, group{topic: t.topic()})
		}
		list[i].tests = append(list[i].tests, t)
	}
	return list
}

// testsOf returns the tests that apply to a table and a way.
func testsOf(c Case, w way) []test {
	tests := slices.Clone(everyWay)
	if w.transactional {
		tests = append(tests, inTransactions...)
	}
	if w.functions {
		tests = append(tests, sqlFunctions...)
		tests = slices.DeleteFunc(tests, func(t test) bool { return isOnlyInGo(c, t.name) })
	}
	if len(c.Spec.Lanes) > 0 {
		tests = append(tests, lanes...)
	}
	if len(c.Spec.Topics.Columns) > 0 {
		tests = append(tests, topics...)
	}
	if slices.ContainsFunc(c.Spec.Columns, func(c workqueue.Column) bool { return c.Name == keyColumn }) {
		tests = append(tests, keys...)
		if c.Spec.Admission == "" { // whose rule counts what a claim takes
			tests = append(tests, runs...)
		}
	}
	if len(c.Spec.Unique) > 0 {
		tests = append(tests, unique...)
	}
	if w.brief || w.similar && !pgtest.Full() {
		tests = slices.DeleteFunc(tests, func(t test) bool { return !t.brief() })
	}
	return tests
}

// brief selects the tests that matter for a way that uses the same library as another but encodes arguments
// differently.
func (t test) brief() bool {
	return slices.Contains([]string{"insert", "operator", "table"}, t.topic()) ||
		strings.Contains(t.sentence(), "effect") || strings.Contains(t.sentence(), "lanes")
}

// everyWay are the tests of operations that every way has, even a worker in psql.
var everyWay = []test{
	{"claim/order", claimsInOrder},
	{"claim/limit", claimsAtMostItsLimit},
	{"claim/effect", claimEffect},
	{"claim/not before due", claimsNothingBeforeItIsDue},
	{"claim/only ready", claimsOnlyReadyRows},
	{"claim/attempts", claimsUpToTheMaximum},
	{"claim/concurrent", claimsEachRowOnce},
	{"claim/locked", claimSkipsLockedRows},
	{"settle/effect", settleEffect},
	{"settle/unavailable", settleUnavailable},
	{"settle/stale", settleRefusesStaleTokens},
	{"settle/other outcome", settleRefusesAnotherOutcome},
	{"settle/repeated", settleRepeated},
	{"settle/gone", settleOfGoneRows},
	{"settle/partial", settlePartialBatch},
	{"settle/duplicates", settleDuplicateIDs},
	{"settle/empty", settleNothing},
	{"settle/expired", settleAfterTheLeaseButBeforeTheReaper},
	{"settle/exhausted", settleExhausted},
	{"settle/cancelled", settleCancelled},
	{"settle/any order", settleInAnyOrderWithoutDeadlock},
	{"lease/extend effect", extendEffect},
	{"lease/extend settled", extendRefusesSettledRows},
	{"lease/extend locked", extendSkipsLockedRows},
	{"lease/reap effect", reapEffect},
	{"lease/reap exhausted", reapExhausted},
	{"lease/reap cancelled", reapCancelled},
	{"lease/reap limit", reapLimit},
	{"lease/reap live leases", reapLeavesLiveLeases},
	{"lease/reap locked", reapLeavesLockedRows},
	{"lease/reap against ack", reapAgainstAck},
	{"lease/reap against extend", reapAgainstExtend},
	{"operator/cancel ready", cancelReady},
	{"operator/cancel waiting", cancelWaiting},
	{"operator/cancel in progress", cancelInProgress},
	{"operator/cancel ended", cancelLeavesTheRest},
	{"operator/redrive effect", redriveEffect},
	{"operator/redrive only failed", redriveOnlyFailed},
	{"table/constraints", constraintsHold},
	{"table/states", constraintsKnowTheStates},
	{"table/every column has a sample", everyColumnHasASample},
	{"table/every column arrives", columnsArrive},
	{"table/every column is bounded", columnsAreBounded},
	{"table/every bound is listed", onlyBoundsThatAreListed},
	{"table/announcements", announces},
	{"waiting/not claimed", waitingIsNotClaimed},
	{"waiting/released", waitingIsReleased},
	{"waiting/not settled", waitingIsNotSettled},
	{"waiting/redriven", redriveReleases},
	{"lease/own backoff", rowsOwnBackoff},
	{"insert/defaults", insertDefaults},
	{"insert/fields", insertFields},
	{"insert/in the past", insertInThePast},
	{"insert/batch", insertBatch},
	{"insert/copy of every column", copiedColumnsArrive},
	{"insert/waiting", insertWaiting},
	{"claim/values", claimReturnsTheRow},
	{"waiting/not due", waitingIsNotDue},
	{"sweep/at rest", sweepsLeaveTheRestAlone},
	{"operator/redrive actor", redriveRecordsTheActor},
	{"input/error text", errorTextIsMadeStorable},
	{"input/refused", refusesBadInput},
	{"table/purge", purgesByAge},
	{"table/next wake", tellsTheNextWake},
	{"table/stats", countsLiveRows},
	{"table/next wake at", tellsWhenToWake},
	{"input/nil transaction", refusesNilTransactions},
	{"drain/until nothing is due", drains},
}

// keys are the tests of tables with keyed rows.
var keys = []test{
	{"drain/a key in its order", drainsAKey},
	{"insert/behind its key", insertsBehindItsKey},
}

// runs are the tests of tables with keyed rows that batches take as runs.
var runs = []test{
	{"batch/runs of a key", handsOverRuns},
	{"batch/a run that is lost", chargesTheHeadOfALostRun},
}

// inTransactions are the tests of operations inside a caller's transaction.
var inTransactions = []test{
	{"transaction/rollback of an enqueue", rollbackUndoesTheEnqueue},
	{"transaction/rollback of a claim", rollbackUndoesTheClaim},
	{"transaction/rollback of a settle", rollbackUndoesTheSettle},
	{"transaction/commit of a settle", commitKeepsBothWrites},
	{"transaction/settings", settingsAreGivenBack},
}

// sqlFunctions are the tests of what only the SQL functions have.
var sqlFunctions = []test{
	{"input/function refused", functionsRefuseBadInput},
	{"input/fetch refused", fetchRefusesBadInput},
	{"input/null ids", functionsRefuseNullIDs},
	{"operator/every row is answered", verbsAnswer},
	{"operator/refused", verbsRefuse},
	{"operator/effect", verbsEffect},
	{"settle/function each", functionSettlesEach},
	{"settle/function many", functionSettlesMany},
	{"settle/function refused", functionRefusesOutcomes},
	{"settle/function completes", functionCompletes},
	{"settle/function idle", functionBoundsIdleTime},
	{"settle/function session", functionsWantReadCommitted},
	{"lease/function", functionTellsOfLeases},
	{"insert/function", functionWrites},
	{"insert/function duplicates", functionTellsDuplicates},
	{"table/privileges", functionsAreNotForPublic},
	{"sweep/functions", sweepFunctions},
}

var lanes = []test{
	{"claim/lanes apart", lanesAreApart},
	{"claim/lanes order", lanesKeepTheirOrder},
}

var unique = []test{
	{"insert/unique duplicate", duplicateReportsTheHolder},
	{"insert/unique batch", duplicateInsideABatch},
	{"insert/unique null", nullIsNeverADuplicate},
	{"insert/unique concurrent", concurrentDuplicates},
	{"insert/unique rolled back", duplicateOfARolledBackRow},
}

// sessionTests run in sessions whose defaults an administrator has changed.
var sessionTests = []struct {
	name string
	run  func(*testing.T, Case)
}{
	{"repeatable read", func(t *testing.T, c Case) { worksUnderIsolation(t, c, "repeatable read") }},
	{"serializable", func(t *testing.T, c Case) { worksUnderIsolation(t, c, "serializable") }},
	{"conflict", runsLostConflictsAgain},
	{"read only", reportsAReadOnlyDatabase},
	{"ddl/up and down and up", ddlUpAndDown},
	{"ddl/version", tableCarriesItsVersion},
	{"ddl/triggers", disabledTriggersAreRefused},
}
