package timers

import (
	"embed"
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
	MaxAttempts, MaxKey     int
}

func newView(spec workqueue.Spec) view {
	v := view{Schema: spec.Schema, MaxAttempts: spec.MaxAttempts, MaxKey: MaxKey, Announce: spec.Announce()}
	if v.Schema == "" {
		v.Schema = workqueue.DefaultSchema
	}
	v.Schema = `"` + v.Schema + `"`
	v.Table = v.Schema + `."` + spec.Table + `"`
	return v
}

// Hides is the condition that row-level security hides timers from the role.
func (v view) Hides() string { return sqltext.Hides(v.Table) }
