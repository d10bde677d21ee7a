package migrations

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/pressly/goose/v3/database"

	"github.com/txwork/txwork/internal/mark"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// What a migration has made may be there although the table of versions does not record it: if somebody dropped that
// table, or restored the others without it. Then the migration cannot be applied again, and has to be recorded.

// marking finds the comments with which a migration gives tables their versions. It begins with plain text, which is
// found much faster than the beginning of a line.
var marking = regexp.MustCompile(`\nCOMMENT ON TABLE "[^"]+"\."([^"]+)" IS '(txwork [^']*)`)

// evident tells whether tables show that the migration was applied. A migration raises the version of what it changes
// in its own transaction, so one table is enough: what is missing beside it was dropped later. One that builds an index
// has no transaction, and is resumed if it was not recorded, unless a later one has raised the version since.
func (m migration) evident(marks map[string]mark.Mark) bool {
	return slices.ContainsFunc(marking.FindAllStringSubmatch("\n"+m.up, -1), func(found []string) bool {
		gives, is := mark.Parse(found[2])
		have, exists := marks[found[1]]
		return is && exists && have.Core.Is >= gives.Core.Is && have.Table.Is >= gives.Table.Is &&
			!(m.concurrent() && have.Core.Is == gives.Core.Is && have.Table.Is == gives.Table.Is)
	})
}

// unrecorded returns those of the chosen migrations that were applied and are not recorded.
func (s state) unrecorded(chosen []migration, marks map[string]mark.Mark) []migration {
	recorded := s.applied(chosen)
	return slices.DeleteFunc(slices.Clone(chosen), func(one migration) bool { // the text is read of few, if of any
		return slices.ContainsFunc(recorded, func(r migration) bool { return r.version == one.version }) ||
			!one.evident(marks)
	})
}

// unrecordedDifferences are those of migrations that are to be recorded. Their DDL makes the tables of versions and
// domains, if these are missing, and records what the schema has.
func (m *Migrator) unrecordedDifferences(has state, unrecorded []migration) (all Differences) {
	for i, one := range unrecorded {
		d := Difference{Object: "migration " + one.name, Problem: "is not recorded, although its tables are there",
			DDL: []string{}, cause: cause{unrecordedMigration, true}}
		if i == 0 && !has.versioned {
			for _, statement := range statements(render("version_table.sql", m.schema)) {
				d.DDL = append(d.DDL, statement+";")
			}
		}
		if i == 0 {
			d.DDL = append(d.DDL, line(recordVersion(m.schema, setUpVersion)))
		}
		if !slices.Contains(has.domains, one.domain) {
			d.DDL = append(d.DDL, line(recordDomain(m.schema, one.domain)))
		}
		d.DDL = append(d.DDL, line(recordVersion(m.schema, one.version)))
		all = append(all, d)
	}
	return all
}

// refuseUnrecorded refuses to migrate a schema of which chosen migrations are not recorded: to apply one of them again
// fails, because its tables exist, and to revert it does nothing.
func (m *Migrator) refuseUnrecorded(ctx context.Context, db database.DBTxConn, has state, chosen []migration) error {
	stands, err := m.standing(ctx, db)
	unrecorded := has.unrecorded(chosen, stands.marks)
	if err != nil || len(unrecorded) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s: run the SQL that %s prints, which records what is there, then migrate again",
		workqueue.ErrSchemaVersion, m.unrecordedDifferences(has, unrecorded).Causes()[0],
		postgres.Command(m.schema, "migrate", "validate"))
}
