package workqueue

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A verb is what an operator does to rows by their ids. Its function answers for each, in the order of the call.
type verb struct {
	sqlFunction
	became string // the state of a row that was changed, from the row t as it was
	why    string // WHEN … THEN … for rows that were not, before what is true of every verb
}

// verbFormat is the statement of a verb: the one that Go executes, and what became of each row. It reads the rows as
// they were before. Which rows were changed is told by a sort, because a join with them would compare each with each.
const verbFormat = `%[1]s, named AS (
    SELECT s.id, s.place, bool_or(s.place IS NULL) OVER (PARTITION BY s.id) AS changed
    FROM (
        SELECT u.id, u.place FROM unnest($1) WITH ORDINALITY AS u (id, place)
        UNION ALL SELECT h.id, NULL FROM hit AS h
    ) AS s
)
SELECT n.place::integer, n.id, n.changed,
       CASE WHEN t.id IS NULL THEN 'gone' WHEN n.changed THEN %[2]s ELSE %[3]s END,
       CASE WHEN n.changed THEN NULL WHEN t.id IS NULL THEN 'there is no such row'%[4]s ELSE 'it is ' || %[3]s END
FROM named AS n
LEFT JOIN %[5]s AS t ON t.id = n.id
WHERE n.place IS NOT NULL
ORDER BY n.place`

// stateOfRow is the state of the row t, as a text.
const stateOfRow = `CASE
           WHEN t.status = 0 AND t.waiting THEN 'waiting'
           WHEN t.status = 0 AND t.due_at > clock_timestamp() THEN 'scheduled'
           WHEN t.status = 0 THEN 'ready'
           WHEN t.status = 1 THEN 'in_progress'
           WHEN t.status = 2 THEN 'done'
           WHEN t.cancelled_at IS NULL THEN 'failed'
           ELSE 'cancelled' END`

// Verbs are the functions of operators.
func (v view) Verbs() []sqlFunction {
	note := func(parameter, otherwise string) []string {
		return []string{
			sqltext.Given("$2", parameter, "Say why; an empty text says nothing."),
			fmt.Sprintf("%s := %s || CASE WHEN $2 = '' THEN 'no reason given' ELSE left($2, %d) END;", parameter,
				otherwise, conn.MaxErrorBytes/8),
		}
	}
	reason := sqlParam{name: "reason", typ: "text"}
	verbs := []verb{
		{
			sqlFunction: sqlFunction{Name: "run_now", file: "reschedule", params: []sqlParam{idsParam},
				expression: map[string]string{"at": "now()", "only_earlier": "true"}},
			became: "CASE WHEN t.waiting THEN 'waiting' ELSE 'ready' END",
			why: "\n           WHEN t.status = 0 AND t.waiting THEN 'it is due, and waits for its key, a join or its topic'" +
				"\n           WHEN t.status = 0 THEN 'it is due already'",
		},
		{
			sqlFunction: sqlFunction{Name: "reschedule", file: "reschedule",
				params: []sqlParam{idsParam, {name: "at", typ: "timestamptz"}},
				checks: []string{sqltext.RefuseUnless("$2 BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 00:00:00+00'", "at",
					"must be a time between the years 1 and 9999", "Give the time, or call run_now.")},
				expression: map[string]string{"at": "$2", "only_earlier": "false"}},
			became: "CASE WHEN t.waiting THEN 'waiting' WHEN $2 > clock_timestamp() THEN 'scheduled' ELSE 'ready' END",
			why:    "\n           WHEN t.status = 0 THEN 'it is due at that time already'",
		},
		{
			sqlFunction: sqlFunction{Name: "redrive", file: "redrive",
				params:     []sqlParam{idsParam, {name: "actor", typ: "text", fallback: "NULL"}},
				checks:     []string{fmt.Sprintf("actor := left(nullif(actor, ''), %d);", conn.MaxErrorBytes/8)},
				expression: map[string]string{"actor": "$2"}},
			became: "CASE WHEN " + v.RedriveWaits() + " THEN 'waiting' ELSE 'ready' END",
			why:    v.whyNotRetaken(),
		},
		{
			sqlFunction: sqlFunction{Name: "cancel", file: "cancel", params: []sqlParam{idsParam, reason},
				checks: note("reason", "'cancelled: '"), expression: map[string]string{"reason": "$2"}},
			became: "CASE WHEN t.status = 0 THEN 'cancelled' ELSE 'in_progress' END",
			why:    "\n           WHEN t.status = 1 THEN '" + cancelAsked + "'",
		},
		{
			sqlFunction: sqlFunction{Name: "discard", file: "discard", params: []sqlParam{idsParam, reason},
				checks: note("reason", "'discarded: '"), expression: map[string]string{"reason": "$2"}},
			became: "'cancelled'",
			why:    "\n           WHEN t.status IN (0, 1) THEN 'it is ' || " + stateOfRow + " || ': cancel it'",
		},
		{
			sqlFunction: sqlFunction{Name: "delete", file: "delete", params: []sqlParam{idsParam}},
			became:      "'deleted'",
			why:         "\n           WHEN t.status IN (0, 1) THEN 'it is ' || " + stateOfRow + " || ': cancel it first'",
		},
	}
	if v.HasPolicy() {
		verbs = append(verbs, verb{
			sqlFunction: sqlFunction{Name: "unblock", file: "unblock", params: []sqlParam{idsParam}},
			became:      stateOfRow,
			why: "\n           WHEN t.status = 3 AND t.key_policy = 0 THEN 'the rows of its key do not wait for it'" +
				"\n           WHEN t.status = 3 THEN 'it has no ordered key'",
		})
	}
	functions := make([]sqlFunction, len(verbs))
	for i, verb := range verbs {
		f := verb.sqlFunction
		f.returns = "TABLE (place integer, id uuid, changed boolean, result text, why text)"
		if f.expression == nil {
			f.expression = map[string]string{}
		}
		f.expression["ids"] = "$1"
		f.checks = append(append([]string{refuseIDs("$1")}, f.checks...), v.lockNamed(f.Name))
		f.wrap = fmt.Sprintf(verbFormat, "%s", verb.became, stateOfRow, verb.why, v.Table)
		f.verb = true
		functions[i] = f
	}
	return functions
}

// hits is the statement of a verb as the beginning of another one, which reads the ids that it changed from hit. What
// notifies after a change has a WITH of its own, which must not be inside of another.
func hits(body string) string {
	const told = "\nSELECT unnest(told.ids) AS id FROM told"
	if with, ok := strings.CutSuffix(body, told); ok {
		return with + ", hit AS (" + told + "\n)"
	}
	return "WITH hit AS (\n" + body + "\n)"
}

// cancelAsked is why a row in progress is not cancelled again.
const cancelAsked = "its cancel was asked for before"

// whyNotRetaken names the row that holds the unique value which a dead letter has given up.
func (v view) whyNotRetaken() string {
	if v.Freed() == "" {
		return ""
	}
	return fmt.Sprintf("\n           WHEN t.status = 3 THEN coalesce('row ' || (SELECT h.id FROM %s AS h WHERE h.%s = t.%s) ||"+
		" ' holds its unique key', 'another of these rows takes its unique key')", v.Table, v.Held(), v.Freed())
}

// lockNamed locks the rows, in the order of their ids, so that what is said of those that stay as they are is true
// until the transaction ends.
func (v view) lockNamed(name string) string {
	strength := "NO KEY UPDATE"
	if name == "delete" {
		strength = "UPDATE"
	}
	return fmt.Sprintf("PERFORM FROM %s AS t WHERE t.id = ANY ($1) ORDER BY t.id FOR %s;", v.Table, strength)
}

// HasPolicy says that dead letters have a policy for the rows of their key, see package keyed.
func (v view) HasPolicy() bool {
	_, ok := v.spec.column("key_policy")
	return ok
}

// MaxNote is how many characters of a reason and an error are kept: as many as surely fit into the bytes of an error.
func (view) MaxNote() int { return conn.MaxErrorBytes / 4 }
