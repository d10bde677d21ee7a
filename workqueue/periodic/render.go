package periodic

import (
	"embed"
	"text/template"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

// statements are a plan's own statements, in addition to those of the core.
type statements struct {
	find, try, holder, limit, load, lock, get, list, advance, put, pause, resume, remove string
}

func render(spec workqueue.Spec) statements {
	v := view{Table: `"` + spec.Schema + `"."` + spec.Table + `"`, Announce: spec.Announce()}
	statement := func(file string) string { return sqltext.Statement(sqlTemplates, file, v) }
	return statements{
		find:    statement("find"),
		try:     statement("try"),
		holder:  statement("holder"),
		limit:   statement("limit"),
		load:    statement("load"),
		lock:    statement("lock"),
		get:     statement("get"),
		list:    statement("list"),
		advance: statement("advance"),
		put:     statement("put"),
		pause:   statement("pause"),
		resume:  statement("resume"),
		remove:  statement("remove"),
	}
}

// A view is the data of the statements' templates. [workqueue.Open] has validated the names.
type view struct{ Table, Announce string }
