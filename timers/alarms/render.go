package alarms

import (
	"cmp"
	"embed"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

const table = "alarms"

//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = sqltext.Parse(sqlFiles, "sql/*.sql")

// statements are the SQL statements for the table of alarms. None of them writes timers.
type statements struct {
	create, find, get, list, cancel                        string
	begin, fired, reschedule, retry, failed, skip, revoked string
	stranded, holdStranded, lacking                        string
}

func render(schema string) statements {
	v := newView(schema)
	statement := func(file string) string { return sqltext.Statement(sqlTemplates, file, v) }
	return statements{
		create:     statement("create"),
		find:       statement("find"),
		get:        statement("get"),
		list:       statement("list"),
		cancel:     statement("cancel"),
		begin:      statement("begin"),
		fired:      statement("fired"),
		reschedule: statement("reschedule"),
		retry:      statement("retry"),
		failed:     statement("failed"),
		skip:       statement("skip"),
		revoked:    statement("revoked"),
		stranded:   statement("stranded"),

		holdStranded: statement("hold_stranded"),
		lacking:      statement("lacking"),
	}
}

// DDL renders the statements that create the table of alarms in a schema, and those that drop it. An empty
// schema is [workqueue.DefaultSchema]. The tables of package timers have to be in the same schema.
func DDL(schema string) (up, down string, err error) {
	if err := timers.Spec(schema).Validate(); err != nil {
		return "", "", err
	}
	v := newView(schema)
	return sqltext.Execute(sqlTemplates, "table", v) + "\n", sqltext.Execute(sqlTemplates, "table_down", v) + "\n", nil
}

// view is what the templates see. The schema's name has been validated, so it needs no escaping.
type view struct {
	Table, Timers, Time, Prefix string
	MaxFailures                 int
}

func newView(schema string) view {
	schema = cmp.Or(schema, workqueue.DefaultSchema)
	return view{
		Table:       `"` + schema + `"."` + table + `"`,
		Timers:      `"` + schema + `"."` + timers.Spec(schema).Table + `"`,
		Time:        `"` + schema + `"."` + timers.Spec(schema).Table + `_time"`, // the type of its times
		Prefix:      KeyPrefix,
		MaxFailures: DefaultMaxFailures,
	}
}

// Hides is the condition that row-level security hides timers from the role.
func (v view) Hides() string { return sqltext.Hides(v.Timers) }
