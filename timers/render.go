package timers

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

// statements are the SQL statements of timers, in addition to those of the core.
type statements struct{ set, cancel, get, list, live string }

func render(spec workqueue.Spec) statements {
	v := newView(spec)
	statement := func(file string) string { return sqltext.Statement(sqlTemplates, file, v) }
	return statements{
		set:    statement("set"),
		cancel: statement("cancel"),
		get:    statement("get"),
		list:   statement("list"),
		live:   statement("live"),
	}
}

// view is what the templates see of a Spec. Its names have been validated, so they need no escaping.
type view struct {
	Schema, Table, Announce string
	MaxAttempts             string
	One                     bool // the statement sets one timer, within a function
}

func newView(spec workqueue.Spec) view {
	v := view{Schema: spec.Schema, MaxAttempts: fmt.Sprint(spec.MaxAttempts), Announce: spec.Announce()}
	if v.Schema == "" {
		v.Schema = workqueue.DefaultSchema
	}
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
	lines := strings.Split(sqltext.Execute(sqlTemplates, "set", v), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "--") })
	var values []string
	for i, p := range []string{"@key", "@topic", "@payload", "@headers", "@max_attempts", "@scheduled_at"} {
		values = append(values, fmt.Sprintf("$%d", i+1), fmt.Sprintf(array, p))
	}
	return strings.NewReplacer(append(values, "$7", "ARRAY[NULL]")...).Replace(strings.Join(lines, "\n"))
}
