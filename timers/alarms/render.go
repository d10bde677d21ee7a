package alarms

import (
	"embed"
	"strings"
	"text/template"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

const table = "alarms"

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = template.Must(template.ParseFS(sqlFiles, "sql/*.sql"))

// statements are what is done with the table. What becomes of timers is in none of them.
type statements struct {
	create, find, get, list, cancel                                  string
	begin, fired, reschedule, retry, failed, skip, revoked, stranded string
}

func render(schema string) statements {
	v := newView(schema)
	return statements{
		create:     v.execute("create"),
		find:       v.execute("find"),
		get:        v.execute("get"),
		list:       v.execute("list"),
		cancel:     v.execute("cancel"),
		begin:      v.execute("begin"),
		fired:      v.execute("fired"),
		reschedule: v.execute("reschedule"),
		retry:      v.execute("retry"),
		failed:     v.execute("failed"),
		skip:       v.execute("skip"),
		revoked:    v.execute("revoked"),
		stranded:   v.execute("stranded"),
	}
}

// DDL renders the statements that create the table of alarms in a schema, and those that drop it. An empty
// schema is [workqueue.DefaultSchema]. The tables of package timers have to be in the same schema.
func DDL(schema string) (up, down string, err error) {
	if err := timers.Spec(schema).Validate(); err != nil {
		return "", "", err
	}
	v := newView(schema)
	return v.execute("table") + "\n", v.execute("table_down") + "\n", nil
}

// view is what the templates see. The schema's name has been validated.
type view struct {
	Table, Timers, Prefix string
	MaxFailures           int
}

func newView(schema string) view {
	if schema == "" {
		schema = workqueue.DefaultSchema
	}
	return view{
		Table:       `"` + schema + `"."` + table + `"`,
		Timers:      `"` + schema + `"."` + timers.Spec(schema).Table + `"`,
		Prefix:      KeyPrefix,
		MaxFailures: DefaultMaxFailures,
	}
}

// execute renders a file. The files are embedded, so a failure is a defect of this package.
func (v view) execute(file string) string {
	var b strings.Builder
	if err := sqlTemplates.ExecuteTemplate(&b, file+".sql", v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}
