package migrations

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

//go:embed roles/*.sql roles/producer/*.sql
var roleFiles embed.FS

var roleTemplates = sqltext.Parse(roleFiles, "roles/*.sql", "roles/producer/*.sql")

// DefaultRolePrefix begins the names of the roles: txwork_owner, txwork_worker and so on.
const DefaultRolePrefix = "txwork"

// RoleOptions configure [Roles]. The zero value is usable.
type RoleOptions struct {
	// Schema holds the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Prefix begins the names of the roles, which belong to the whole server. Default: [DefaultRolePrefix].
	Prefix string

	// Domains are the domains that the schema has. Default: the [DefaultDomains].
	Domains []Domain

	// Tables are tables of your own, made by [DDL]. If set, the rights are those on these tables, and not on the tables
	// that the migrations make.
	Tables []RoleTable
}

// A RoleTable is a table of your own.
type RoleTable struct {
	Name   string
	Keyed  bool // it has the objects of package keyed
	Join   bool // it has the objects of package join
	Topics bool // its Spec has [workqueue.Topics]
}

// Roles returns plain SQL that creates the roles owner, migrator, producer, worker, viewer and operator, gives the
// tables to the role owner, and grants every role the rights that its work needs and no more. The tables have to exist.
// The SQL can be run again, and has to be after every migration, because only its owner has rights on a new object.
// docs/security.md says what each role can do.
//
// The text begins and commits transactions, so that the tables can be in use: run it outside of a transaction, as a
// single query without parameters. It locks one table at a time, and ends with SQLSTATE 55P03 if a table is in use for
// more than [DefaultLockTimeout]. What it has done by then stays: run it again. After an error, roll back before you
// use the connection again.
func Roles(o RoleOptions) (string, error) {
	units, err := o.units()
	if err != nil {
		return "", err
	}
	p := rolePrinter{RoleOptions: o.withDefaults()}
	for _, u := range units {
		p.Relations = append(append(p.Relations, u.Tables...), u.Sequences...)
		p.Functions = append(p.Functions, u.Functions()...)
		p.ByName = slices.Concat(p.ByName, u.Writers, u.Several, u.Operated)
	}
	var b strings.Builder
	p.execute(&b, "roles.sql", p)
	for _, u := range units {
		b.WriteString("\n")
		view := unitView{p, u}
		p.execute(&b, "objects.sql", view)
		if u.core {
			p.execute(&b, "operator.sql", view)
		}
		for _, file := range u.producer {
			p.execute(&b, file+".sql", view)
		}
		b.WriteString("COMMIT;\n")
	}
	return b.String(), nil
}

func (o RoleOptions) withDefaults() RoleOptions {
	o.Schema = cmp.Or(o.Schema, workqueue.DefaultSchema)
	o.Prefix = cmp.Or(o.Prefix, DefaultRolePrefix)
	return o
}

// units checks the options and lists the tables and functions that the rights apply to.
func (o RoleOptions) units() ([]unit, error) {
	o = o.withDefaults()
	if err := checkRolePrefix(o.Prefix); err != nil {
		return nil, err
	}
	if err := checkDomains(o.Domains); err != nil {
		return nil, err
	}
	if len(o.Tables) == 0 {
		_, err := schemaOrDefault(o.Schema)
		return o.ofDomains(migratedUnits()), err
	}
	if len(o.Domains) > 0 {
		return nil, validate.Errorf("tables", "are beside domains: print the rights of tables of your own apart")
	}
	var units []unit
	for i, t := range o.Tables {
		if err := (workqueue.Spec{Schema: o.Schema, Table: t.Name}).Validate(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(migratedUnits(), func(u unit) bool { return u.Table == t.Name }) {
			return nil, validate.Errorf("table", "%q is what the migrations make: name tables of your own, or none "+
				"for those", t.Name)
		}
		if slices.ContainsFunc(o.Tables[:i], func(other RoleTable) bool { return other.Name == t.Name }) {
			return nil, validate.Errorf("table", "%q is listed twice", t.Name)
		}
		units = append(units, t.unit())
	}
	return units, nil
}

// ofDomains returns the units of the schema's domains, and the table of versions.
func (o RoleOptions) ofDomains(all []unit) []unit {
	domains := DefaultDomains()
	if len(o.Domains) > 0 {
		domains = needed(o.Domains)
	}
	return slices.DeleteFunc(all, func(u unit) bool {
		d := domainOf(u.Table)
		return slices.Contains(Domains(), d) && !slices.Contains(domains, d)
	})
}

// longestRole is the longest suffix that is appended to the prefix.
const longestRole = "_migrator"

func checkRolePrefix(prefix string) error {
	if err := validate.Identifier("prefix", prefix+longestRole); err != nil {
		return validate.Errorf("prefix", "%q makes no name of a role: it must match [a-z_][a-z0-9_]* and have %d "+
			"bytes at most",
			prefix, 63-len(longestRole))
	}
	if strings.HasPrefix(prefix, "pg_") {
		return validate.Errorf("prefix", "%q begins with pg_, which PostgreSQL keeps for itself", prefix)
	}
	return nil
}

// A roleName is a role as the templates use it.
type roleName struct{ Name, Quoted, Login, For string }

// A rolePrinter is the data of the templates.
type rolePrinter struct {
	RoleOptions
	Relations, Functions, ByName []string
}

func (p rolePrinter) execute(b *strings.Builder, file string, data any) {
	if err := roleTemplates().ExecuteTemplate(b, file, data); err != nil {
		panic(err) // a bug in this package: the files are embedded and the options have been checked
	}
}

// What describes the objects that the rights apply to.
func (p rolePrinter) What() string {
	switch {
	case len(p.RoleOptions.Domains) > 0:
		return fmt.Sprintf("the domains %s in schema %q", domainList(p.RoleOptions.Domains), p.Schema)
	case len(p.Tables) == 0:
		return fmt.Sprintf("all that the migrations make in schema %q", p.Schema)
	}
	names := make([]string, len(p.Tables))
	for i, t := range p.Tables {
		names[i] = t.Name
	}
	return fmt.Sprintf("tables of schema %q: %s", p.Schema, strings.Join(names, ", "))
}

// Name returns a role's name without quotes.
func (p rolePrinter) Name(role string) string { return p.Prefix + "_" + role }

// LockTimeout is how long a statement waits for the lock of a table, as in migrations.
func (rolePrinter) LockTimeout() time.Duration { return DefaultLockTimeout }

// SchemaLock is the lock of migrations. It is not waited for in the server, as these do not.
func (p rolePrinter) SchemaLock() int64 { return newSchemaLock(p.Schema, nil).id }

func (p rolePrinter) Role(role string) string { return `"` + p.Name(role) + `"` }

// Users returns the roles that use the tables without owning them.
func (p rolePrinter) Users() []roleName { return p.Roles()[2:] }

func (p rolePrinter) Roles() []roleName {
	role := func(name, login, purpose string) roleName {
		return roleName{p.Name(name), p.Role(name), login, purpose}
	}
	return []roleName{
		role("owner", "NOLOGIN", "owns tables and functions"),
		role("migrator", "LOGIN", "changes the schema, as the owner"),
		role("producer", "LOGIN", "enqueues"),
		role("worker", "LOGIN", "claims and settles"),
		role("viewer", "LOGIN", "reads"),
		role("operator", "LOGIN", "reads, and decides about rows"),
	}
}

// Q returns the quoted and qualified name of an object.
func (p rolePrinter) Q(name string) string { return `"` + p.Schema + `"."` + name + `"` }

func (p rolePrinter) List(names []string) string { return p.join(names, ", ", "%s") }

// Names are literals of names without their schema.
func (rolePrinter) Names(names []string) string { return "'" + strings.Join(names, "', '") + "'" }

func (p rolePrinter) Literals(names []string) string { return p.join(names, ",\n            ", "'%s'") }

func (p rolePrinter) join(names []string, separator, format string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = fmt.Sprintf(format, p.Q(name))
	}
	return strings.Join(all, separator)
}
