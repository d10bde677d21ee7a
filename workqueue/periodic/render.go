package periodic

import (
	"embed"
	"strings"
	"text/template"

	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

// statements are what a plan does with its table beside the core's own.
type statements struct {
	find, load, get, list, advance, put, pause, resume, remove string
}

func render(spec workqueue.Spec) statements {
	v := view{Table: `"` + spec.Schema + `"."` + spec.Table + `"`, Channel: "'" + spec.Name() + "'"}
	return statements{
		find:    v.execute("find"),
		load:    v.execute("load"),
		get:     v.execute("get"),
		list:    v.execute("list"),
		advance: v.execute("advance"),
		put:     v.execute("put"),
		pause:   v.execute("pause"),
		resume:  v.execute("resume"),
		remove:  v.execute("remove"),
	}
}

// view is what the statements see of a plan. [workqueue.Open] has validated the names.
type view struct{ Table, Channel string }

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
