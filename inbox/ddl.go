package inbox

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// The statements and functions are in sql/, one operation per file.
//
//go:embed sql/*.sql
var sqlFiles embed.FS

var sqlTemplates = sqltext.Parse(sqlFiles, "sql/*.sql")

// DDL renders the statements that create the inbox's table in a schema, with all defaults, and those that drop it.
// Txwork's own migrations run these statements. The schema has to exist.
func DDL(schema string) (up, down string, err error) { return render(Spec(schema), DefaultRetention) }

func render(spec workqueue.Spec, retention time.Duration) (up, down string, err error) {
	coreUp, coreDown, err := spec.DDL()
	if err != nil {
		return "", "", err
	}
	v := newView(spec)
	v.Retention = interval(retention)
	parts := []string{strings.TrimSpace(coreUp), sqltext.Execute(sqlTemplates, "table", v),
		sqltext.Execute(sqlTemplates, "begin", v), sqltext.Execute(sqlTemplates, "strip", v)}
	return strings.Join(parts, "\n\n") + "\n", sqltext.Execute(sqlTemplates, "down", v) + "\n" + coreDown, nil
}

// view is what the templates see of a Spec.
type view struct {
	schema, table string
	Table         string
	Retention     string
}

// NewID is an id for a row whose writer gives none.
func (view) NewID() string { return sqltext.NewID }

// Bounded refuses a number of rows that the Go API would refuse, see [sqltext.Bounded].
func (view) Bounded(param, name string) string {
	return sqltext.Bounded(param, name, workqueue.MaxBatch)
}

// RefusesKey refuses what cannot identify a message, and a hash that is none, as the function receive does.
func (view) RefusesKey() string {
	var checks []string
	for i, name := range []string{"consumer", "source", "message_id"} {
		checks = append(checks, sqltext.Sized(fmt.Sprintf("$%d", i+1), name, MaxKeyPart, "Give it as receive gets it."))
	}
	hash := sqltext.RefuseUnless("$4 IS NULL OR octet_length($4) = 32", "body_hash", "must have 32 bytes",
		"NULL is that of the payload, or none without a payload.")
	return strings.Join(append(checks, hash), "\n    ")
}

// Hash is the hash of what the function begin is given.
func (view) Hash() string {
	return strings.NewReplacer("@source", "$2", "@body_hash", "$4", "@payload", "$5", "@topic", "$7").Replace(sqlHash)
}

// RefusesRetention refuses a retention that is none: a row without a retention would never be a tombstone.
func (view) RefusesRetention() string {
	return sqltext.RefuseUnless("$2 >= interval '0'", "retention", "must not be negative or NULL",
		"Say for how long messages keep their payloads.")
}

func newView(spec workqueue.Spec) view {
	v := view{schema: cmp.Or(spec.Schema, workqueue.DefaultSchema), table: spec.Table}
	v.Table = quote(v.schema) + "." + quote(v.table)
	return v
}

// Named returns a quoted name that is derived from the table's name, such as that of an index.
func (v view) Named(suffix string) string { return quote(v.table + "_" + suffix) }

// Function returns the qualified name of one of the table's functions.
func (v view) Function(name string) string { return quote(v.schema) + "." + v.Named(name) }

// IdleTimeout returns the package's [IdleTimeout] in milliseconds.
func (v view) IdleTimeout() int64 { return IdleTimeout.Milliseconds() }

// NameLiteral returns the table's name as a string literal. It needs no escaping, because Spec.Validate refuses such
// names.
func (v view) NameLiteral() string { return "'" + v.schema + "." + v.table + "'" }

func quote(name string) string { return `"` + name + `"` }

// interval formats a duration as text that PostgreSQL accepts as an interval through every driver.
func interval(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return fmt.Sprintf("%d microseconds", d.Microseconds())
}

// statements are the SQL statements that the inbox sends in addition to those of the core.
type statements struct{ begin, strip, holders string }

func renderStatements(spec workqueue.Spec) statements {
	v := newView(spec)
	return statements{
		begin: sqltext.Qualified("SELECT b.answer, b.holder, b.holder_status FROM " + v.Function("begin") +
			"($1::text, $2::text, $3::text, $4::bytea, $5::bytea, $6::uuid) AS b"),
		strip:   "SELECT " + v.Function(stripSweep) + "($1::integer, $2::interval)",
		holders: sqltext.Statement(sqlTemplates, "holders", v),
	}
}
