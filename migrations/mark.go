package migrations

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"slices"

	"github.com/pressly/goose/v3/database"

	"github.com/txwork/txwork/internal/mark"
	"github.com/txwork/txwork/workqueue"
)

// marksQuery returns the tables of a schema that say which programs they serve.
//
//go:embed catalog/marks.sql
var marksQuery string

// A standing is what a schema that a newer library has migrated says about this one.
type standing struct {
	marks   map[string]mark.Mark // the versions of its tables
	newer   []Domain             // those with tables of newer versions, which serve this library
	refuses string               // the first table that this library cannot use; empty if it can use all of them
}

// A marked is a table with a comment that says which version it has.
type marked struct{ table, comment string }

func listMarks(ctx context.Context, db database.DBTxConn, schema string) ([]marked, error) {
	return list(ctx, db, marksQuery, func(row *sql.Rows) (t marked, err error) {
		return t, row.Scan(&t.table, &t.comment)
	}, schema)
}

// standing compares the versions of the schema's tables with those that this library makes.
func (m *Migrator) standing(ctx context.Context, db database.DBTxConn) (s standing, err error) {
	all, err := listMarks(ctx, db, m.schema)
	if err != nil {
		return s, err
	}
	s.marks = map[string]mark.Mark{}
	known := knownMarks()
	for _, t := range all {
		ours, is := known[t.table]
		have, marked := mark.Parse(t.comment)
		if !is || !marked {
			continue
		}
		s.marks[t.table] = have
		core, own := have.Core.For(program(ours.Core)), have.Table.For(program(ours.Table))
		switch {
		case core == mark.TooNew || own == mark.TooNew:
			s.refuses = cmp.Or(s.refuses, t.table)
		case have.Core.Is > ours.Core.Is || have.Table.Is > ours.Table.Is:
			s.newer = append(s.newer, domainOf(t.table))
		}
	}
	return s, nil
}

// program is what this library says about a table: that it reads older versions does not matter here.
func program(v mark.Version) mark.Program { return mark.Program{Is: v.Is} }

// knownMarks are the versions of the tables as this library makes them.
func knownMarks() map[string]mark.Mark {
	known := map[string]mark.Mark{}
	for _, o := range snapshot("txwork", nil).objects {
		if text := cmp.Or(o.Facts[coreVersion], o.Facts[version]); o.Kind == "table" && text != "" {
			known[o.Name], _ = mark.Parse(mark.Prefix + text)
		}
	}
	return known
}

// damage lists the facts that no migration changes: they are compared also in a domain of a newer version.
var damage = []string{"UNLOGGED", "NOT VALID", "invalid", "disabled"}

// beyond tells whether an object belongs to a domain that a newer library has migrated, or whose migrations are
// pending. What a newer library may change there, this one does not know, nor what a pending migration will. No
// migration makes a function name another schema.
func (c *comparison) beyond(o object) bool {
	return !slices.Contains(c.renamed, o.identity()) &&
		slices.Contains(c.newer, domainOf(cmp.Or(o.Parent, o.Facts["table"], o.Name)))
}

// markProblem says what is wrong with the version of a table that the migrations make.
func markProblem(want, have string) string {
	if have == "" {
		return "has no comment that says for which version of the core it was made: this library works with " + want
	}
	problem := fmt.Sprintf("was made for version %s, this library makes %s", have, want)
	if isNewer(have, want) {
		return problem + ": upgrade the library"
	}
	return problem + ", and its migrations are applied: its comment was changed"
}

// isNewer compares the versions of two tables.
func isNewer(have, want string) bool {
	theirs, _ := mark.Parse(mark.Prefix + have)
	ours, _ := mark.Parse(mark.Prefix + want)
	return theirs.Core.Is > ours.Core.Is || theirs.Table.Is > ours.Table.Is
}

// ownProblem says why this library cannot work with a table of the application's own, whose own version only the
// application knows. It is empty if the version of the core fits.
func ownProblem(have string) string {
	theirs, _ := mark.Parse(mark.Prefix + have)
	ours := mark.Program{Is: workqueue.SchemaVersion, Oldest: workqueue.OldestSchemaVersion}
	switch theirs.Core.For(ours) {
	case mark.TooOld:
		return fmt.Sprintf("was made for version %d of the core, this library works with %d and later: migrate it: "+
			"migrations.DDL returns its present form", theirs.Core.Is, ours.Oldest)
	case mark.TooNew:
		return fmt.Sprintf("was made for version %d of the core, which serves %d and later, this library has %d: upgrade "+
			"the library", theirs.Core.Is, theirs.Core.Since, ours.Is)
	}
	return ""
}
