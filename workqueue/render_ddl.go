package workqueue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// DDL renders the statements that create the table with its indexes, its trigger and its SQL functions, and those
// that drop them. The schema has to exist.
func (s Spec) DDL() (up, down string, err error) {
	if err := s.Validate(); err != nil {
		return "", "", err
	}
	v := newView(s)
	parts := []string{v.execute("table", v)}
	if v.Admission != "" {
		parts = append(parts, v.execute("claim_admitted", v))
	}
	if v.HasTopics() {
		parts = append(parts, v.execute("topics", v))
	}
	fetching := v
	fetching.Fetches = true
	parts = append(parts, v.execute("fetch", fetching))
	for _, f := range slices.Concat(v.Functions(), v.Verbs()) {
		parts = append(parts, v.renderFunction(f))
	}
	parts = append(parts, v.writersUp()...)
	parts = append(parts, v.execute("fold", v), v.execute("each", v), v.execute("maintain", v))
	return strings.Join(parts, "\n\n") + "\n", v.execute("table_down", v) + "\n", nil
}

// VersionComment is the table's comment as a string literal.
func (v view) VersionComment() string { return "'" + v.spec.mark().String() + "'" }

// A sqlFunction is an operation as psql, Python or C# call it.
type sqlFunction struct {
	Name       string
	file       string
	params     []sqlParam
	returns    string
	checks     []string
	expression map[string]string // for each of the statement's parameters
	verb       bool              // it is one of Verbs
	wrap       string            // selects what the function returns from the statement's rows
	settles    *settling         // nil: it is no function of settles
}

type sqlParam struct{ name, typ, fallback string }

// Types is the function's signature without names.
func (f sqlFunction) Types() string {
	types := make([]string, len(f.params))
	for i, p := range f.params {
		types[i] = p.typ
	}
	return strings.Join(types, ", ")
}

func (f sqlFunction) parameters() string {
	params := make([]string, len(f.params))
	for i, p := range f.params {
		params[i] = p.name + " " + p.typ
		if p.fallback != "" {
			params[i] += " DEFAULT " + p.fallback
		}
	}
	return strings.Join(params, ", ")
}

// refuseNoOwner refuses a claim without an owner.
func refuseNoOwner() string {
	return sqltext.Given("$1", "owner_token", "Use a fresh token for every claim, and the claim's for its rows.")
}

// refuseForeignToken refuses a claim whose owner token tells no process: rows that a process loses together would look
// as if each had been lost alone.
func refuseForeignToken() string {
	return sqltext.RefuseUnless("$1 >= '00000000-0001-0000-0000-000000000000' AND $1::text LIKE '______________8%'",
		"owner_token", "must be of version 8 and begin with the 48 bits of a process, which are not 0",
		"Make one for every claim: owner_token(process) does.")
}

// refuseLease refuses a lease that the Go API refuses, too: until it ends, nobody notices that a worker has died.
func refuseLease(param, name, format string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%s BETWEEN "+format+" AND "+format, param, MinLease/time.Second,
		MaxLease/time.Second), name, fmt.Sprintf("must be between %d and %d seconds", MinLease/time.Second,
		MaxLease/time.Second), "Take a lease that a dead worker may hold its rows for, and extend it while they run.")
}

// refuseIDs refuses a list of ids that no call of the Go API has.
func refuseIDs(param string) string { return sqltext.Listed(param, "ids", MaxBatch) }

// refuseCount refuses a number of rows that the Go API refuses, too.
func refuseCount(param, name string) string { return sqltext.Bounded(param, name, MaxBatch) }

// Bounded refuses a number of rows in the text of a function.
func (view) Bounded(param, name string) string { return refuseCount(param, name) }

// RefusesClaim refuses what no claim of the Go API has, in the functions that claims in Go call.
func (view) RefusesClaim() string {
	return strings.Join([]string{
		refuseNoOwner(), refuseLease("$2", "lease", "interval '%d seconds'"), refuseCount("$3", "batch_size"),
	}, "\n    ")
}

// RefusesOthers refuses a claim of several values of the lane that has rules or topics.
func (view) RefusesOthers(lane, param string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("(%[1]s)[1] = ALL (%[1]s)", param), lane,
		"must be the same in all lanes of a claim", "Claim from each "+lane+" by itself.")
}

var (
	ownerParam = sqlParam{name: "owner_token", typ: "uuid"}
	idsParam   = sqlParam{name: "ids", typ: "uuid[]"}
)

// Functions are the table's SQL functions.
func (v view) Functions() []sqlFunction {
	return append(v.settleFunctions(), []sqlFunction{
		{
			Name: "reap_expired", file: "reap_expired",
			returns:    "TABLE (requeued integer, failed integer, cancelled integer, dead_letters jsonb)",
			params:     []sqlParam{{"max_rows", "integer", "1000"}},
			checks:     []string{refuseCount("$1", "max_rows")},
			expression: map[string]string{"max_rows": "$1"},
		},
		{
			Name: "stats", file: "stats",
			returns: "TABLE (ready bigint, scheduled bigint, in_progress bigint, expired bigint, waiting bigint, failed bigint, " +
				"cancelled bigint, oldest_ready_seconds double precision, partial boolean)",
		},
	}...)
}

// AdmittedClaim is the claim inside of claim_admitted, whose parameters are those of the statement.
func (v view) AdmittedClaim() string {
	v.WholeRows = true
	expressions := map[string]string{
		"owner_token": "$1", "lease": "$2", "batch_size": "least($3, rule.admitted)", "after_due": "$4",
		"after_id": "$5",
	}
	for i, lane := range v.Lanes {
		expressions[lane.Param] = fmt.Sprintf("$%d", i+6)
	}
	return v.inline("claim", expressions)
}

// RuleArgument is the parameter of claim_admitted with the values of the lane that has rules.
func (v view) RuleArgument() string {
	return fmt.Sprintf("$%d", 6+slices.Index(v.spec.Lanes, v.Admission))
}

// functionBody is the statement of a function, without its checks.
func (v view) functionBody(f sqlFunction) string {
	v.WholeRows = true
	body := v.inline(f.file, f.expression)
	if f.verb {
		body = hits(body)
	}
	if f.wrap != "" {
		body = fmt.Sprintf(f.wrap, body)
	}
	return body
}

func (v view) renderFunction(f sqlFunction) string {
	if f.settles != nil {
		return v.renderSettle(f)
	}
	return v.execute("function", map[string]any{
		"Function":   v.Function(f.Name),
		"Parameters": f.parameters(),
		"Types":      f.Types(),
		"Returns":    f.returns,
		"Settings":   v.FunctionSettings(),
		"Checks":     f.checks,
		"Body":       v.functionBody(f),
	})
}

// FunctionSettings are the settings under which the bodies of functions run.
func (view) FunctionSettings() string {
	settings := []string{"SET search_path = pg_catalog, pg_temp"}
	for _, s := range conn.PlanSettings {
		settings = append(settings, fmt.Sprintf("SET %s = %s", s.Name, s.Value))
	}
	return strings.Join(settings, "\n")
}
