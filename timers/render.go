package timers

import (
	"embed"
	"strings"
	"text/template"

	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

// statements are what timers do with their table beside the core's own.
type statements struct{ set, cancel, get, list, live string }

func render(spec workqueue.Spec) statements {
	v := newView(spec)
	return statements{
		set:    v.execute("set"),
		cancel: v.execute("cancel"),
		get:    v.execute("get"),
		list:   v.execute("list"),
		live:   v.execute("live"),
	}
}

// view is what the templates see of a Spec, whose names have been validated.
type view struct {
	Schema, Table, Channel string
	MaxAttempts, MaxKey    int
}

func newView(spec workqueue.Spec) view {
	v := view{Schema: spec.Schema, MaxAttempts: spec.MaxAttempts, MaxKey: MaxKey, Channel: "'" + spec.Name() + "'"}
	if v.Schema == "" {
		v.Schema = workqueue.DefaultSchema
	}
	v.Schema = `"` + v.Schema + `"`
	v.Table = v.Schema + `."` + spec.Table + `"`
	return v
}

// NowMicros is what workers are notified with: the earliest due time that the transaction can have written.
func (v view) NowMicros() string { return "(extract(epoch FROM now()) * 1000000)::bigint::text" }

// execute renders a file. The files are embedded, so a failure is a defect of this package.
func (v view) execute(file string) string {
	var b strings.Builder
	if err := sqlTemplates.ExecuteTemplate(&b, file+".sql", v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}
