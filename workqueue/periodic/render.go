package periodic

import (
	"cmp"
	"embed"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

//go:embed sql/*.sql sql/schema/*.sql
var sqlFiles embed.FS

var (
	sqlTemplates    = sqltext.Parse(sqlFiles, "sql/*.sql")
	schemaTemplates = sqltext.Parse(sqlFiles, "sql/schema/*.sql")
)

// statements are a plan's own statements, in addition to those of the core.
type statements struct {
	find, try, holder, limit, load, lock, get, list, advance, put, pause, resume, remove, triggered string
}

func render(spec workqueue.Spec) statements {
	v := newView(spec)
	statement := func(file string) string { return sqltext.Statement(sqlTemplates, file, v) }
	return statements{
		find:      statement("find"),
		try:       statement("try"),
		holder:    statement("holder"),
		limit:     statement("limit"),
		load:      statement("load"),
		lock:      statement("lock"),
		get:       statement("get"),
		list:      statement("list"),
		advance:   statement("advance"),
		put:       statement("put"),
		pause:     statement("pause"),
		resume:    statement("resume"),
		remove:    statement("remove"),
		triggered: statement("triggered"),
	}
}

// A view is the data of the statements' templates. [workqueue.Open] has validated the names.
type view struct{ Table, Announce string }

func newView(spec workqueue.Spec) view {
	schema := cmp.Or(spec.Schema, workqueue.DefaultSchema)
	return view{Table: `"` + schema + `"."` + spec.Table + `"`, Announce: spec.Announce()}
}

// Function is one of the table's functions.
func (v view) Function(name string) string {
	return strings.TrimSuffix(v.Table, `"`) + "_" + name + `"`
}

// Settings are those of the functions, whose plans a session may make while the table is empty.
func (view) Settings() string {
	return "SET search_path = pg_catalog, pg_temp\nSET enable_seqscan = off\nSET enable_bitmapscan = off"
}

// Inline is a statement in a function.
func (v view) Inline(file string, args ...string) string {
	return strings.TrimSpace(sqltext.Indented(sqltext.Inline(sqlTemplates, file, v, args...), 8))
}

// RefuseName refuses what can be no name.
func (view) RefuseName() string {
	return sqltext.Sized("$1", "name", MaxName, "Give the name of a schedule.")
}

// NewID is the id of an occurrence that is asked for.
func (view) NewID() string { return sqltext.NewID }

// MaxTriggers bounds what waits for a scheduler.
func (view) MaxTriggers() int { return maxTriggers }
