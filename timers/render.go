package timers

import (
	"cmp"
	"embed"
	"fmt"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = sqltext.Parse(sqlFiles, "sql/*.sql")

// statements are the SQL statements of timers, in addition to those of the core.
type statements struct{ set, cancel, get, list, live, existing string }

func render(spec workqueue.Spec) statements {
	v := newView(spec)
	statement := func(file string) string { return sqltext.Statement(sqlTemplates, file, v) }
	return statements{
		set:    statement("set"),
		cancel: statement("cancel"),
		get:    statement("get"),
		list:   statement("list"),
		live:   statement("live"),

		existing: statement("existing"),
	}
}

// view is what the templates see of a Spec. Its names have been validated, so they need no escaping.
type view struct {
	Schema, Table, Announce string
	MaxAttempts             string
	One                     bool // the statement sets one timer, within a function
	spec                    workqueue.Spec
}

func newView(spec workqueue.Spec) view {
	v := view{Schema: spec.Schema, MaxAttempts: fmt.Sprint(spec.MaxAttempts), Announce: spec.Announce(), spec: spec}
	v.Schema = cmp.Or(v.Schema, workqueue.DefaultSchema)
	v.Schema = `"` + v.Schema + `"`
	v.Table = v.Schema + `."` + spec.Table + `"`
	return v
}

// Hides is the condition that row-level security hides timers from the role.
func (v view) Hides() string { return sqltext.Hides(v.Table) }

// StatesOf are the states of a timer.
func (v view) StatesOf(alias string) string { return sqltext.StatesOf(alias) }

// setOne is the statement of Set as the function timers_set executes it, for one timer, and setMany as timers_set_many
// does, which has an array of each parameter.
func setOne() string  { return setIn(true, "ARRAY[%s]") }
func setMany() string { return setIn(false, "%s") }

func setIn(one bool, array string) string {
	v := view{Table: "@table", Announce: "@announce", MaxAttempts: "@default_attempts", One: one}
	var args []string
	for _, p := range []string{"@key", "@topic", "@payload", "@headers", "@max_attempts", "@scheduled_at"} {
		args = append(args, fmt.Sprintf(array, p))
	}
	return sqltext.Inline(sqlTemplates, "set", v, append(args, "ARRAY[NULL]")...)
}

// Inline is a statement with one parameter as functions execute it, and CancelIDs the core's cancel.
func (v view) Inline(file, arg string) string {
	return sqltext.Indented(sqltext.Inline(sqlTemplates, file, v, arg), 8)
}

func (v view) CancelIDs(ids, reason string) string {
	return sqltext.Indented(v.spec.Inline("cancel", map[string]string{"ids": ids, "reason": reason}), 8)
}

// RefuseKeys and RefuseKey check the arguments of functions.
func (view) RefuseKeys() string {
	return sqltext.RefuseUnless("$1 IS NOT NULL AND array_position($1, NULL) IS NULL", "keys",
		"must not be or have NULL", "Give an array of keys.") + "\n    " +
		sqltext.RefuseUnless(fmt.Sprintf("cardinality($1) <= %d", workqueue.MaxBatch), "keys",
			fmt.Sprintf("must have at most %d elements", workqueue.MaxBatch), "Cancel them by several calls.")
}

func (view) RefuseKey() string {
	return sqltext.Given("$1", "key", "Give the timer's key.")
}
