package migrations

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txwork/txwork/workqueue"
)

// A Difference is an object of a schema that is not as the migrations of this library make it.
type Difference struct {
	Object  string `json:"object"`  // such as: index txwork.outbox_claim_idx
	Problem string `json:"problem"` // such as: is missing

	// DDL repairs it, statement by statement. Run the statements of several differences in their order, and not in one
	// transaction, because indexes are created concurrently. It is empty if no statement can bring back what is gone.
	DDL []string `json:"ddl"`

	// Harmless differences are no reason to refuse the schema: storage parameters, and additions that may be
	// intentional.
	Harmless bool `json:"harmless,omitempty"`

	cause cause
}

// A cause is what several differences have in common. One or more of them name it.
type cause struct {
	kind  string // empty: the difference has its own
	names bool   // the object of this difference is the cause
}

// Kinds of causes.
const (
	missingTable        = "missing table"
	pendingMigration    = "pending migration"
	unrecordedMigration = "unrecorded migration"
)

func (d Difference) String() string { return d.Object + " " + d.Problem }

// Pending reports that it is a migration which is to be applied, or several of them, see [Differences.Causes].
func (d Difference) Pending() bool { return d.cause.kind == pendingMigration }

// Unrecorded reports that it is a migration which was applied, and whose record is gone: its DDL brings that back. As
// long as one is unrecorded, nothing can be migrated.
func (d Difference) Unrecorded() bool { return d.cause.kind == unrecordedMigration }

// Differences are the differences of a schema.
type Differences []Difference

// Err returns a [SchemaError] of the differences that are not harmless, or nil if there are none.
func (all Differences) Err() error {
	matter := slices.DeleteFunc(slices.Clone(all), func(d Difference) bool { return d.Harmless })
	if len(matter) == 0 {
		return nil
	}
	return &SchemaError{matter, "`txwork migrate validate`"}
}

// Causes combines the differences that have one cause: those of missing tables, with everything that belonged to them,
// and those of pending migrations. The DDL stays in its order.
func (all Differences) Causes() Differences {
	var combined Differences
	at, names := map[string]int{}, map[string][]string{}
	for _, d := range all {
		kind := d.cause.kind
		i, known := at[kind]
		switch {
		case kind == "":
			combined = append(combined, d)
			continue
		case !known:
			i, at[kind] = len(combined), len(combined)
			combined = append(combined, Difference{Object: d.Object, Problem: d.Problem, DDL: []string{},
				cause: cause{kind: kind}})
		}
		c := &combined[i]
		if c.DDL = append(c.DDL, d.DDL...); !d.cause.names {
			continue
		}
		what, name, _ := strings.Cut(d.Object, " ")
		if names[kind] = append(names[kind], name); len(names[kind]) == 1 {
			c.Object, c.Problem = d.Object, d.Problem
			continue
		}
		c.Object, c.Problem = what+"s "+strings.Join(names[kind], ", "), several.Replace(d.Problem)
	}
	return combined
}

// several is for the problem of more than one object.
var several = strings.NewReplacer("is missing", "are missing", "its rows", "their rows", "an empty table",
	"empty tables", "is pending", "are pending", "is not recorded", "are not recorded", "its tables", "their tables")

// A SchemaError says how a schema differs from what this library works with. errors.Is finds
// [workqueue.ErrSchemaVersion] in it.
type SchemaError struct {
	Differences Differences

	advice string // the command that prints the DDL of the differences
}

func (e *SchemaError) Is(target error) bool { return target == workqueue.ErrSchemaVersion }

func (e *SchemaError) Error() string {
	var b strings.Builder
	b.WriteString("the schema is not as this version of txwork needs it:")
	mendable := false
	for _, d := range e.Differences.Causes() {
		b.WriteString("\n  " + d.String())
		mendable = mendable || len(d.DDL) > 0
	}
	if mendable {
		b.WriteString("\nrun the SQL that " + e.advice + " prints")
	}
	return b.String()
}

// compared lists, by kind, the facts that are compared. Other facts are only used in messages and to create tables.
var compared = map[string][]string{
	"domain":            {"type", "NOT NULL", "default"},
	"domain constraint": {"definition", "NOT VALID"},
	"type":              {"definition"},
	"sequence":          {"definition"},
	"table": {"kind", partitionKey, partitionOf, "UNLOGGED", replicaIdentity, coreVersion, version,
		storageParameters},
	"column":     {"type", "collation", "NOT NULL", "default", "generation", "identity"},
	"constraint": {"definition", "NOT VALID", "invalid"},
	"index":      {"definition", "invalid"},
	"function": {"kind", "arguments", "result", "language", "volatility", "STRICT", "SECURITY DEFINER",
		"parallel safety", "settings", "body"},
	"trigger": {"definition", "disabled"},
}

// Facts of tables.
const (
	coreVersion       = "core version"
	version           = "version" // of a table that does not instantiate the core
	storageParameters = "storage parameters"
	replicaIdentity   = "replica identity"
	partitionKey      = "partition key"
	partitionOf       = "partition of"
)

// A comparison compares a catalog with the one that the migrations make.
type comparison struct {
	mender
	have  map[identity]object
	gone  []string // tables that are missing
	newer []Domain // domains with migrations that are not of this library, or pending
	found Differences

	former  string     // the schema that functions of a renamed one still name; empty: it was not renamed
	renamed []identity // these functions
}

// compare lists the differences of a catalog, in an order in which their statements can be run. Of the domains that a
// newer library has migrated, or whose migrations are pending, it lists only what no migration does.
func compare(want, have catalog, m mender, newer []Domain) Differences {
	c := comparison{mender: m, have: index(have.objects), newer: newer}
	c.former, c.renamed = formerBodies(want, have, c.schema)
	wanted := index(want.objects)
	for _, o := range want.objects {
		if _, exists := c.have[o.identity()]; o.Kind == "table" && !exists {
			c.gone = append(c.gone, o.Name)
		}
	}
	for _, kind := range kinds(want.objects, have.objects) {
		for _, o := range want.objects {
			if o.Kind == kind {
				c.expect(o)
			}
		}
		for _, o := range have.objects {
			if _, ours := wanted[o.identity()]; o.Kind == kind && !ours {
				c.foreign(o, wanted)
			}
		}
	}
	c.collapse()
	return c.found
}

func index(objects []object) map[identity]object {
	all := make(map[identity]object, len(objects))
	for _, o := range objects {
		all[o.identity()] = o
	}
	return all
}

// kinds returns the kinds of objects in the order in which they are created.
func kinds(lists ...[]object) (order []string) {
	for _, list := range lists {
		for _, o := range list {
			if !slices.Contains(order, o.Kind) {
				order = append(order, o.Kind)
			}
		}
	}
	return order
}

// expect compares an object that the migrations make.
func (c *comparison) expect(want object) {
	have, exists := c.have[want.identity()]
	if !exists {
		if !c.beyond(want) {
			c.missing(want)
		}
		return
	}
	d := Difference{Object: c.describe(want), DDL: []string{}}
	note := d
	var problems []string
	for _, fact := range compared[want.Kind] {
		if same(fact, want.Facts[fact], have.Facts[fact]) || c.beyond(want) && !slices.Contains(damage, fact) {
			continue
		}
		problem, ddl := problem(fact, want.Facts[fact], have.Facts[fact]), c.alter(want, have, fact)
		if fact == storageParameters {
			note.Problem, note.DDL, note.Harmless = problem, ddl, true
			continue
		}
		problems = append(problems, problem)
		for _, statement := range ddl {
			if !slices.Contains(d.DDL, statement) {
				d.DDL = append(d.DDL, statement)
			}
		}
	}
	if d.Problem = strings.Join(problems, "; "); d.Problem != "" {
		c.found = append(c.found, d)
	}
	if note.Harmless {
		c.found = append(c.found, note)
	}
}

func (c *comparison) missing(want object) {
	d := Difference{Object: c.describe(want), Problem: "is missing", DDL: c.create(want)}
	switch want.Kind {
	case "column":
		if _, there := c.have[identity{kind: "table", name: want.Parent}]; !there {
			return // the table's own statement has its columns
		}
		d.Problem += ", and what it held is gone: restore that from a backup"
	case "table":
		d.Problem += ", and its rows are gone: restore them from a backup, or go on with an empty table"
	}
	if c.goneWith(want) {
		d.cause = cause{missingTable, want.Kind == "table"}
	}
	c.found = append(c.found, d)
}

// goneWith tells whether an object is missing because a table is. A function may have a row of the table as its result.
func (c *comparison) goneWith(o object) bool {
	return slices.Contains(c.gone, o.Parent) || slices.Contains(c.gone, o.Facts["table"]) ||
		o.Kind == "table" || o.Kind == "function" && len(c.gone) > 0
}

// foreign checks an object that the migrations do not make. It reports only additions with which txwork cannot work, or
// that can interfere with it.
func (c *comparison) foreign(o object, wanted map[identity]object) {
	if c.beyond(o) {
		return
	}
	ours := func(table string) bool {
		_, yes := wanted[identity{kind: "table", name: table}]
		return yes
	}
	d := Difference{Object: c.describe(o), DDL: []string{}}
	switch {
	case o.Kind == "table":
		if text := o.Facts[coreVersion]; text != "" {
			d.Problem = ownProblem(text)
		}
	case o.Kind == "column" && ours(o.Parent) && o.required():
		d.Problem = "is not txwork's, NOT NULL and without a default: every insert fails"
		d.DDL = c.alter(object{Kind: o.Kind, Parent: o.Parent, Name: o.Name}, o, "NOT NULL")
	case o.Kind == "function" && slices.ContainsFunc(named(wanted,
		"function"), func(w object) bool { return w.bare() == o.bare() }):
		d.Problem = "is not txwork's and has the name of one that is: calls may mean either"
		d.DDL = []string{c.dropRoutine(o)}
	case o.Kind == "trigger" && o.Name == logTable+"_moved": // made by the move of an outbox to the log
	case o.Kind == "index" && ours(o.Facts["table"]) && o.Facts["UNIQUE"] != "",
		(o.Kind == "constraint" || o.Kind == "trigger" || o.Kind == "rule") && ours(o.Parent):
		d.Problem, d.Harmless = "is not txwork's: it can refuse or change what txwork writes", true
	}
	if d.Problem != "" {
		c.found = append(c.found, d)
	}
}

// required reports whether every insert has to name the column.
func (o object) required() bool {
	return o.Facts["NOT NULL"] != "" && o.Facts["default"] == "" && o.Facts["generation"] == "" &&
		o.Facts["identity"] == ""
}

func named(objects map[identity]object, kind string) (list []object) {
	for id, o := range objects {
		if id.kind == kind {
			list = append(list, o)
		}
	}
	return list
}

// same compares a fact. It ignores three kinds of differences: the parentheses in an expression, which depend on the
// version of PostgreSQL and on whether the object was restored from a dump; quotes around names in a setting, which
// depend on the session that created the function; and line endings, which a tool may have changed.
func same(fact, want, have string) bool {
	if want == have {
		return true
	}
	switch fact {
	case "definition", "default", "arguments":
		return loosely(want) == loosely(have)
	case "settings":
		return strings.ReplaceAll(want, `"`, "") == strings.ReplaceAll(have, `"`, "")
	case "body":
		return strings.ReplaceAll(want, "\r", "") == strings.ReplaceAll(have, "\r", "")
	}
	return false
}

var parentheses = strings.NewReplacer("(", " ", ")", " ")

func loosely(expression string) string { return line(parentheses.Replace(expression)) }

func problem(fact, want, have string) string {
	switch {
	case fact == coreVersion, fact == version:
		return markProblem(want, have)
	case fact == "body":
		return "does something else: its body is not that of this version"
	case fact == "kind":
		return "is a " + have
	case want == "yes":
		return "lacks " + fact
	case have == "yes":
		return "is " + fact
	case have == "":
		return fmt.Sprintf("has no %s, needs %s", fact, line(want))
	case want == "":
		return fmt.Sprintf("has the %s %s, needs none", fact, line(have))
	}
	return fmt.Sprintf("has the %s %s, needs %s", fact, line(have), line(want))
}

// line puts a text on one line.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }
