package workqueue

import (
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A settling is what the templates of the functions that settle see.
type settling struct {
	view
	file       string
	Function   string
	Parameters string
	Types      string
	Returns    string
	Settings   string
	Checks     []string

	Outcome  settledBy   // of a function with one
	Outcomes []settledBy // of the function with all

	Rows           string // the parameter that names the rows
	StrictArgument string
	Inner          string // the function that settles rows with one outcome
	Ack            string // the function that acks
}

// A settledBy is an outcome as a function settles it: what a row usually becomes by it, an expression for what became
// of a row c that it changed, and in which states a row that it did not change is told as another word than lost.
type settledBy struct {
	Name              string
	Takes, Needs      []string // fields of its elements in settle, beside id and token
	Usual, Word       string
	LeadsTo           string
	Again             string
	Tells             bool
	IDs               string // an expression for the ids, sorted
	Statement         string
	Classify          string
	One               *settledBy // the same for rows of one claim, if that has a statement of its own
	file              string
	params            []sqlParam // of its short form
	checks            []string
	Delay, At, Errors string // expressions for one row of the short form
}

const (
	becameReady = "CASE WHEN c.status = 0 THEN 'ready' WHEN c.cancelled THEN 'cancelled' ELSE 'failed' END"
	microOf     = "(extract(epoch FROM %s) * 1000000)::bigint"

	// settledIdle is how long a caller may be idle in the transaction of a settle, whose rows are locked.
	settledIdle = "interval '1 minute'"

	// cancelledBecause is the error of a row that its worker ends as cancelled, see [Outcome].
	cancelledBecause = "ARRAY(SELECT 'cancelled: ' || coalesce(u.e, 'no reason given') FROM unnest($6) AS u (e))"
)

// settledOutcomes are the outcomes in the order in which settle has their statements, which is that of outcomes.
func (v view) settledOutcomes() []settledBy {
	delay := sqlParam{"delay", "interval", ""}
	reason := sqlParam{"reason", "text", "NULL"}
	bounded := func(condition, hint string) string {
		return sqltext.RefuseUnless(fmt.Sprintf("%s$3 BETWEEN interval '0' AND interval '%d hours'", condition,
			maxDelay/time.Hour), "delay", fmt.Sprintf("must be between 0 and %d hours", maxDelay/time.Hour), hint)
	}
	const later = "Say for how long the rows are to wait."
	return []settledBy{
		{Name: "ack", file: v.settleFile(outcomeAck), Usual: "done", LeadsTo: "2"},
		{Name: "retry", file: "abandon", Takes: []string{"delay", "error"}, Usual: "ready", LeadsTo: "0, 3",
			params: []sqlParam{{"delay", "interval", "NULL"}, {"error", "text", "NULL"}},
			checks: []string{bounded("$3 IS NULL OR ", "NULL is the table's own backoff."), shortened("error")},
			Delay:  fmt.Sprintf(microOf, "$3"), Errors: "$4"},
		{Name: "snooze", file: "snooze", Takes: []string{"delay", "error"}, Needs: []string{"delay"}, Usual: "ready",
			LeadsTo: "0, 3", params: []sqlParam{delay, reason},
			checks: []string{bounded("", later), shortened("reason")},
			Delay:  fmt.Sprintf(microOf, "$3"), Errors: "$4"},
		{Name: "wait_until", file: "wait_until", Takes: []string{"at", "error"}, Needs: []string{"at"}, Usual: "ready",
			LeadsTo: "0, 3", params: []sqlParam{{"at", "timestamptz", ""}, reason},
			checks: []string{sqltext.RefuseUnless("$3 <@ "+times, "at", "must be between the years 1 and 9999",
				"Say until when the rows are to wait."), shortened("reason")},
			At: "$3", Errors: "$4"},
		{Name: "leave", file: "leave", Takes: []string{"delay", "error"}, Needs: []string{"delay"}, Usual: "ready",
			LeadsTo: "0, 3"},
		{Name: "release", file: "release", Usual: "ready", LeadsTo: "0, 3"},
		{Name: "fail", file: "fail", Takes: []string{"error"}, Needs: []string{"error"}, Usual: "failed", LeadsTo: "3",
			params: []sqlParam{{"error", "text", ""}},
			checks: []string{sqltext.Given("$3", "error", "Say why the rows failed."), shortened("error")},
			Errors: "$3"},
		{Name: "cancel", file: "fail", Takes: []string{"error"}, Needs: []string{"error"}, Usual: "cancelled",
			LeadsTo: "3"},
		{Name: "unavailable", file: "unavailable", Takes: []string{"error"}, Usual: "ready", LeadsTo: "0, 3"},
	}
}

// times are the times that the table can have.
const times = "'[0001-01-01 00:00:00+00, 9999-12-31 00:00:00+00]'::tstzrange"

// shortened cuts an error to maxErrorBytes, as Go code does before it sends one. A character has up to four bytes. An
// empty error is none, as in Go.
func shortened(param string) string {
	return fmt.Sprintf("%[2]s := left(nullif(%[2]s, ''), %[1]d); WHILE octet_length(%[2]s) > %[1]d LOOP"+
		" %[2]s := left(%[2]s, -greatest((octet_length(%[2]s) - %[1]d) / 4, 1)); END LOOP;", conn.MaxErrorBytes, param)
}

// settleFunctions are the functions with which a claim's owner settles and extends.
func (v view) settleFunctions() []sqlFunction {
	const told = "TABLE (place integer, id uuid, result text)"
	strict := sqlParam{"strict", "boolean", "false"}
	held := []string{refuseNoOwner(), refuseIDs("$2")}
	inner := v.Function("settle_rows")
	functions := []sqlFunction{{
		Name: "settle_rows", returns: "jsonb", params: []sqlParam{{"outcome", "text", ""}, idsParam,
			{"tokens", "uuid[]", ""}, {"delays", "bigint[]", ""}, {"times", "timestamptz[]", ""},
			{"errors", "text[]", ""}, {"strict", "boolean", ""}},
		checks:  []string{sqltext.RefuseSession("a settle")},
		settles: &settling{file: "settle_rows", Outcomes: v.eachSettled(), Rows: "ids", StrictArgument: "$7"},
	}, {
		Name: "settle", returns: told, params: []sqlParam{{"outcomes", "jsonb", ""}, strict},
		checks: []string{v.refuseOutcomes(), refuseNoStrict("$2")},
		settles: &settling{file: "settle", Outcomes: v.settledOutcomes(), Rows: "outcomes", StrictArgument: "$2",
			Inner: inner},
	}}
	for _, o := range v.settledOutcomes() {
		if o.Name == "leave" || o.Name == "cancel" || o.Name == "unavailable" {
			continue // in settle only
		}
		f := sqlFunction{Name: o.Name, returns: told, params: append([]sqlParam{ownerParam, idsParam}, o.params...)}
		n := fmt.Sprintf("$%d", len(f.params)+1)
		f.params = append(f.params, strict)
		f.checks = append(append(append(f.checks, held...), o.checks...), refuseNoStrict(n))
		f.settles = &settling{file: "settle_one", Outcome: o, StrictArgument: n, Inner: inner}
		functions = append(functions, f)
	}
	return append(functions, sqlFunction{
		Name: "extend", returns: "TABLE (place integer, id uuid, result text, locked_until timestamptz)",
		params: []sqlParam{ownerParam, idsParam, {"lease", "interval", ""}, {"within", "interval", "NULL"}},
		checks: append(held, refuseLease("$3", "lease", "interval '%d seconds'"),
			sqltext.RefuseUnless(fmt.Sprintf("$4 IS NULL OR $4 BETWEEN interval '0' AND interval '%d hours'",
				maxDelay/time.Hour), "within", fmt.Sprintf("must be between 0 and %d hours", maxDelay/time.Hour),
				"NULL is the table's own."), sqltext.RefuseSession("a settle")),
		settles: &settling{file: "settle_extend", Outcome: v.extended()},
	}, sqlFunction{
		Name: "complete", returns: "void", params: []sqlParam{ownerParam, {"id", "uuid", ""}},
		checks:  []string{refuseNoOwner(), sqltext.Given("$2", "id", "Name the row that is completed.")},
		settles: &settling{file: "settle_complete", Ack: v.Function("ack")},
	})
}

func refuseNoStrict(param string) string {
	return sqltext.Given(param, "strict", "Leave it out for false.")
}

func (view) refuseOutcomes() string {
	return sqltext.RefuseUnless(fmt.Sprintf("CASE WHEN jsonb_typeof($1) = 'array' THEN jsonb_array_length($1) <= %d END",
		MaxBatch), "outcomes", fmt.Sprintf("must be an array of at most %d objects", MaxBatch),
		"Call once for each part of a longer array.")
}

// eachSettled renders the statements of settle_rows.
func (v view) eachSettled() []settledBy {
	all := v.settledOutcomes()
	for i, o := range all {
		e := map[string]string{"ids": "$2", "tokens": "$3", "owner_token": "$3[1]", "delays": "$4", "errors": "$6",
			"cancelled": "array_fill(false, ARRAY[cardinality($2)])"}
		switch o.Name {
		case "ack":
			one := o
			one.file += "_one"
			one = v.settledWith(one, e)
			o.One = &one
		case "wait_until":
			e["delays"] = "$5"
		case "cancel":
			e["errors"], e["cancelled"] = cancelledBecause, "array_fill(true, ARRAY[cardinality($2)])"
		}
		all[i] = v.settledWith(o, e)
	}
	return all
}

func (v view) settledWith(o settledBy, expressions map[string]string) settledBy {
	if o.Usual != "done" {
		o.Word = becameReady
	}
	o.Again, o.IDs = "repeated", expressions["ids"]
	o.Statement, o.Classify = v.settledPart(o.file, expressions), v.inline("classify", expressions)
	return o
}

// settledPart renders a statement as the part settled of a query.
func (v view) settledPart(file string, expressions map[string]string) string {
	v.InFunction = true
	statement := v.inline(file, expressions)
	if strings.HasPrefix(statement, "WITH ") { // it is a query with parts, whose last one is settled
		return statement
	}
	return "WITH settled AS (\n" + statement + "\n)"
}

func (v view) extended() settledBy {
	e := map[string]string{"ids": "own.sorted", "tokens": "array_fill($1, ARRAY[cardinality(own.sorted)])",
		"lease": "$3", "claimed": "NULL",
		"within": "array_fill(" + fmt.Sprintf(microOf, "$4") + ", ARRAY[cardinality(own.sorted)])"}
	return settledBy{Usual: "extended", Word: "CASE WHEN c.cancelled THEN 'cancelled' ELSE 'extended' END",
		LeadsTo: "1", Again: "busy", Tells: true, IDs: "own.sorted", Statement: v.settledPart("extend", e),
		Classify: v.inline("classify", e)}
}

func (v view) renderSettle(f sqlFunction) string {
	s := *f.settles
	s.view = v
	s.Function, s.Parameters, s.Types, s.Returns = v.Function(f.Name), f.parameters(), f.Types(), f.returns
	s.Settings, s.Checks = v.FunctionSettings(), f.checks
	return v.execute(s.file, s)
}

// Same is an array with the value of an expression for each row of a short form.
func (settling) Same(expr string) string {
	if expr == "" {
		return "NULL"
	}
	return "array_fill(" + expr + ", ARRAY[cardinality(own.sorted)])"
}

// Shortened is shortened for the template.
func (settling) Shortened(param string) string { return shortened(param) }

// IdleBound bounds how long a caller may be idle after a settle.
func (settling) IdleBound() string { return sqltext.IdleBound(settledIdle) }

// Wrong refuses an element of settle's outcomes, by its place.
func (settling) Wrong(place, text string) string {
	return fmt.Sprintf(`RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'outcomes',
            MESSAGE = 'outcomes has an element that is refused: ' || %s,
            HINT = 'retry takes delay and error, if you like; fail and cancel error; snooze and leave delay, wait_until at,'
                ' and all three error, if you like; unavailable takes error, if you like; ack and release nothing.';`,
		"concat('number ' || "+place+" || ' ', "+text+")")
}

// MaxDelaySeconds, MaxErrorBytes and Times are the constants for the templates.
func (settling) MaxDelaySeconds() int64 { return int64(maxDelay / time.Second) }
func (settling) MaxErrorBytes() int     { return conn.MaxErrorBytes }
func (settling) Times() string          { return times }
