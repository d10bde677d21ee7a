package migrations

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/mark"
	"github.com/txwork/txwork/internal/postgres"
)

// A mender writes the DDL that repairs a schema, so that it is as the migrations make it.
type mender struct {
	schema   string
	routines routineTexts
	columns  map[string][]object // of the tables
	divided  []string            // tables that have partitions
}

func newMender(schema string, routines routineTexts, want catalog) mender {
	m := mender{schema, routines, map[string][]object{}, nil}
	for _, o := range want.objects {
		if o.Facts[partitionKey] != "" {
			m.divided = append(m.divided, o.Name)
		}
		if o.Kind == "column" {
			m.columns[o.Parent] = append(m.columns[o.Parent], o)
		}
	}
	return m
}

// describe names an object for a message.
func (m mender) describe(o object) string {
	switch {
	case o.Kind == "column":
		return fmt.Sprintf("column %s.%s.%s", m.schema, o.Parent, line(o.Name))
	case o.Parent != "":
		return fmt.Sprintf("%s %s of %s.%s", o.Kind, line(o.Name), m.schema, o.Parent)
	}
	return fmt.Sprintf("%s %s.%s", o.Kind, m.schema, line(o.Name))
}

// create returns the statements that create a missing object.
func (m mender) create(o object) []string {
	if m.shifted(o) {
		return m.shift()
	}
	definition := o.Facts["definition"]
	switch o.Kind {
	case "domain":
		return []string{fmt.Sprintf("CREATE DOMAIN %s AS %s;", m.name(o.Name), o.Facts["type"])}
	case "domain constraint":
		return []string{fmt.Sprintf("ALTER DOMAIN %s ADD CONSTRAINT %s %s;", m.name(o.Parent), quoted(o.Name),
			definition)}
	case "type":
		return []string{fmt.Sprintf("CREATE TYPE %s AS (%s);", m.name(o.Name), definition)}
	case "sequence":
		return []string{fmt.Sprintf("CREATE SEQUENCE %s %s;", m.name(o.Name), definition)}
	case "table":
		return m.createTable(o)
	case "column":
		return append([]string{m.alterTable(o, "ADD COLUMN "+columnText(o))}, m.continueIdentity(o)...)
	case "constraint":
		return m.addConstraint(o)
	case "index":
		return []string{strings.Replace(definition, " INDEX ", " INDEX"+m.concurrently(o)+" ", 1) + ";"}
	case "function":
		return []string{m.routines.of(o).statement, fmt.Sprintf("REVOKE ALL ON ROUTINE %s FROM PUBLIC;",
			m.signature(o))}
	case "trigger":
		return []string{definition + ";"}
	}
	return []string{}
}

// alter returns the statements that correct one fact of an object.
func (m mender) alter(want, have object, fact string) []string {
	needed := want.Facts[fact]
	if m.shifted(want) || strings.HasPrefix(want.Parent, logTable) && want.Name == "xid" && fact == "default" {
		return m.shift()
	}
	switch want.Kind + " " + fact {
	case "domain NOT NULL", "domain default": // txwork's domain types have neither
		return []string{fmt.Sprintf("ALTER DOMAIN %s DROP %s;", m.name(want.Name), strings.ToUpper(fact))}
	case "domain constraint definition":
		return append([]string{fmt.Sprintf("ALTER DOMAIN %s DROP CONSTRAINT %s;", m.name(want.Parent),
			quoted(want.Name))}, m.create(want)...)
	case "domain constraint NOT VALID":
		return []string{fmt.Sprintf("ALTER DOMAIN %s VALIDATE CONSTRAINT %s;", m.name(want.Parent), quoted(want.Name))}
	case "sequence definition":
		return []string{fmt.Sprintf("ALTER SEQUENCE %s %s;", m.name(want.Name), needed)}
	case "table UNLOGGED":
		return []string{fmt.Sprintf("ALTER TABLE %s SET LOGGED;", m.name(want.Name))}
	case "table " + replicaIdentity:
		if needed != "" {
			return m.identify(want)
		}
		return []string{fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY DEFAULT;", m.name(want.Name))}
	case "table " + coreVersion, "table " + version:
		if !isNewer(have.Facts[fact], needed) {
			return m.comment(want)
		}
	case "table " + storageParameters:
		if needed != "" {
			return []string{fmt.Sprintf("ALTER TABLE %s SET (%s);", m.name(want.Name), needed)}
		}
	case "column type", "column collation":
		return []string{m.alterColumn(want, "TYPE "+typeText(want)+" USING "+quoted(want.Name)+"::"+want.Facts["type"])}
	case "column NOT NULL":
		return []string{m.alterColumn(want, setOrDrop(needed, "NOT NULL", ""))}
	case "column default":
		return []string{m.alterColumn(want, setOrDrop(needed, "DEFAULT", " "+needed))}
	case "column generation": // txwork's columns have none
		return []string{m.alterColumn(want, "DROP EXPRESSION")}
	case "column identity":
		return m.alterIdentity(want, have)
	case "constraint definition":
		return append([]string{m.alterTable(want, "DROP CONSTRAINT "+quoted(want.Name))}, m.create(want)...)
	case "constraint NOT VALID":
		return []string{m.alterTable(want, "VALIDATE CONSTRAINT "+quoted(want.Name))}
	case "constraint invalid", "index invalid":
		return []string{fmt.Sprintf("REINDEX INDEX%s %s;", m.concurrently(want), m.name(want.Name))}
	case "index definition":
		return append([]string{fmt.Sprintf("DROP INDEX%s %s;", m.concurrently(want),
			m.name(want.Name))}, m.create(want)...)
	case "function kind", "function arguments", "function result": // OR REPLACE cannot change these
		return append([]string{m.dropRoutine(want)}, m.create(want)...)
	case "trigger definition":
		return []string{strings.Replace(needed, "CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1) + ";"}
	case "trigger disabled":
		return []string{m.alterTable(want, "ENABLE TRIGGER "+quoted(want.Name))}
	}
	if want.Kind == "function" {
		return m.create(want)[:1] // OR REPLACE keeps the rights
	}
	return []string{}
}

// concurrently is how an index is made, unless its table has partitions: then PostgreSQL cannot.
func (m mender) concurrently(o object) string {
	if slices.Contains(m.divided, o.Facts["table"]) {
		return ""
	}
	return " CONCURRENTLY"
}

// shifted tells whether an object depends on the shift of a log, which a rebase raises: the function that sets it makes
// all of them.
func (m mender) shifted(o object) bool {
	return o.Parent == logTable && (o.Kind == "constraint" || o.Kind == "trigger") ||
		o.Parent == logTable+"_later" && o.Kind == "trigger"
}

func (m mender) shift() []string {
	return []string{fmt.Sprintf("SELECT %s(coalesce((SELECT s.shift FROM %s AS s), 0));", m.name(logTable+"_shift"),
		m.name(logTable+"_state"))}
}

func (m mender) createTable(o object) []string {
	if parent, bounds, is := strings.Cut(o.Facts[partitionOf], " "); is {
		return []string{fmt.Sprintf("CREATE TABLE %s PARTITION OF %s %s;", m.name(o.Name), m.name(parent), bounds)}
	}
	lines := make([]string, len(m.columns[o.Name]))
	for i, c := range m.columns[o.Name] {
		lines[i] = "    " + columnText(c)
	}
	text := fmt.Sprintf("CREATE TABLE %s (\n%s\n)", m.name(o.Name), strings.Join(lines, ",\n"))
	if key := o.Facts[partitionKey]; key != "" {
		text += " PARTITION BY " + key
	}
	if parameters := o.Facts[storageParameters]; parameters != "" {
		text += fmt.Sprintf(" WITH (%s)", parameters)
	}
	statements := []string{text + ";"}
	if o.Facts[replicaIdentity] != "" {
		statements = append(statements, m.identify(o)...)
	}
	if o.Facts[coreVersion]+o.Facts[version] != "" {
		statements = append(statements, m.comment(o)...)
	}
	switch o.Name {
	case logTable + "_state":
		statements = append(statements, m.restate())
	case logTable + "_dedup":
		statements = append(statements, m.reshift(o))
	}
	return statements
}

// restate writes the row of a log's state, which was lost with its table: without it, no tick is made.
func (m mender) restate() string {
	return fmt.Sprintf("INSERT INTO %s (shift) SELECT %s;", m.name(logTable+"_state"), m.shiftInDefault())
}

// reshift sets the shift in the default of xid of a table that was made anew.
func (m mender) reshift(o object) string {
	alter := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN xid SET DEFAULT (pg_current_xact_id()::text::bigint + %%s)",
		strings.ReplaceAll(m.name(o.Name), "%", "%%"))
	return fmt.Sprintf("DO $txwork$ BEGIN EXECUTE format(%s, %s); END $txwork$;", postgres.Literal(alter),
		m.shiftInDefault())
}

// shiftInDefault is the shift as a default of the log has it, in which it stands beside the row of the state.
func (m mender) shiftInDefault() string {
	return fmt.Sprintf(`coalesce((
    SELECT substring(pg_get_expr(d.adbin, d.adrelid) FROM '[+] ''?([0-9]+)')::bigint
    FROM pg_attrdef AS d JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE d.adrelid = to_regclass(%s) AND a.attname = 'xid'), 0)`, postgres.Literal(m.name(logTable)))
}

// identify sets the replica identity of a table without a primary key, by which subscribers find deleted rows.
func (m mender) identify(o object) []string {
	return []string{fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY %s;", m.name(o.Name), o.Facts[replicaIdentity])}
}

// comment sets the comment by which programs know which version a table has.
func (m mender) comment(o object) []string {
	text := mark.Prefix + o.Facts[coreVersion]
	if o.Facts[version] != "" {
		text = "txwork " + o.Name + " " + o.Facts[version]
	}
	return []string{fmt.Sprintf("COMMENT ON TABLE %s IS '%s';", m.name(o.Name), text)}
}

// addConstraint adds a constraint in two steps, so that the slow one only takes a lock that lets others write.
func (m mender) addConstraint(o object) []string {
	definition := o.Facts["definition"]
	for _, kind := range []string{"PRIMARY KEY", "UNIQUE"} {
		if columns, ok := strings.CutPrefix(definition, kind+" "); ok {
			return []string{
				fmt.Sprintf("CREATE UNIQUE INDEX CONCURRENTLY %s ON %s %s;", quoted(o.Name), m.name(o.Parent), columns),
				m.alterTable(o, fmt.Sprintf("ADD CONSTRAINT %s %s USING INDEX %[1]s", quoted(o.Name), kind)),
			}
		}
	}
	return []string{
		m.alterTable(o, fmt.Sprintf("ADD CONSTRAINT %s %s NOT VALID", quoted(o.Name), definition)),
		m.alterTable(o, "VALIDATE CONSTRAINT "+quoted(o.Name)),
	}
}

func (m mender) alterIdentity(want, have object) []string {
	needed, is := want.Facts["identity"], have.Facts["identity"]
	switch {
	case needed == "":
		return []string{m.alterColumn(want, "DROP IDENTITY")}
	case is == "":
		return append([]string{m.alterColumn(want, "ADD"+identityText(want))}, m.continueIdentity(want)...)
	}
	return []string{m.alterColumn(want, "SET GENERATED "+needed)}
}

// continueIdentity makes a new identity column continue after the highest existing value.
func (m mender) continueIdentity(o object) []string {
	if o.Facts["identity"] == "" {
		return nil
	}
	return []string{fmt.Sprintf("SELECT setval(pg_get_serial_sequence('%s', '%s'), (SELECT coalesce(max(%s), 0) + 1 "+
		"FROM %[1]s), false);",
		m.name(o.Parent), o.Name, quoted(o.Name))}
}

func (m mender) dropRoutine(o object) string { return fmt.Sprintf("DROP ROUTINE %s;", m.signature(o)) }

func (m mender) signature(o object) string {
	return m.name(o.bare()) + strings.TrimPrefix(o.Name, o.bare())
}

func (m mender) alterTable(o object, what string) string {
	return fmt.Sprintf("ALTER TABLE %s %s;", m.name(o.Parent), what)
}

func (m mender) alterColumn(o object, what string) string {
	return m.alterTable(o, fmt.Sprintf("ALTER COLUMN %s %s", quoted(o.Name), what))
}

func (m mender) name(object string) string { return pgx.Identifier{m.schema, object}.Sanitize() }

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func columnText(o object) string {
	text := quoted(o.Name) + " " + typeText(o)
	if value := o.Facts["default"]; value != "" {
		text += " DEFAULT " + value
	}
	if o.Facts["NOT NULL"] != "" {
		text += " NOT NULL"
	}
	return text + identityText(o)
}

func typeText(o object) string {
	if collation := o.Facts["collation"]; collation != "" {
		return o.Facts["type"] + " COLLATE " + collation
	}
	return o.Facts["type"]
}

func identityText(o object) string {
	if o.Facts["identity"] == "" {
		return ""
	}
	return fmt.Sprintf(" GENERATED %s AS IDENTITY", o.Facts["identity"])
}

func setOrDrop(needed, what, value string) string {
	if needed == "" {
		return "DROP " + what
	}
	return "SET " + what + value
}
