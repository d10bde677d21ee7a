package migrations

import (
	"fmt"
	"regexp"
	"slices"
)

// A loss is what a statement takes from a schema that another migration cannot bring back: the rows of a table, the
// values of a column, or the position of a sequence.
type loss struct {
	table  string
	column string // of the table; empty: all its rows
	is     lossKind
}

type lossKind int

const (
	ofRows lossKind = iota
	ofColumn
	ofSequence
)

// What statements of migrations do. A statement that none of these patterns knows counts as one that loses something.
var (
	// Definitions hold no data: the statements that made them make them again.
	definitionStatement = regexp.MustCompile(`^(?i)(DROP (FUNCTION|PROCEDURE|ROUTINE|TRIGGER|INDEX|POLICY|VIEW|RULE|` +
		`DOMAIN|TYPE) |CREATE |COMMENT ON |GRANT |REVOKE |INSERT INTO |ALTER DOMAIN \S+ (ADD|DROP) )`)
	dropsColumns  = regexp.MustCompile(`^(?i)DROP (DOMAIN|TYPE) .* CASCADE$`) // those of the type
	dropTables    = regexp.MustCompile(`^(?i)DROP TABLE (?:IF EXISTS )?(.+)$`)
	dropSequences = regexp.MustCompile(`^(?i)DROP SEQUENCE (?:IF EXISTS )?(.+)$`)
	changeRows    = regexp.MustCompile(`^(?i)(?:DELETE FROM|TRUNCATE(?: TABLE)?|UPDATE) (?:ONLY )?("[^"]+"\."[^"]+")`)
	alterTable    = regexp.MustCompile(`^(?i)ALTER TABLE (?:IF EXISTS )?(?:ONLY )?("[^"]+"\."[^"]+") (.+)$`)

	dropColumn       = regexp.MustCompile(`^(?i)DROP (?:COLUMN )?(?:IF EXISTS )?"?([a-z_][a-z0-9_]*)"?(?: CASCADE)?$`)
	alterType        = regexp.MustCompile(`^(?i)ALTER (?:COLUMN )?"?([a-z_][a-z0-9_]*)"? (?:SET DATA )?TYPE `)
	definitionClause = regexp.MustCompile(`^(?i)(ADD |DROP CONSTRAINT |ENABLE |DISABLE |VALIDATE |SET [(]|RESET |RENAME |` +
		`REPLICA IDENTITY |ALTER (COLUMN )?\S+ (SET|DROP) (DEFAULT|NOT NULL|STATISTICS|STORAGE)\b)`)

	objectName = regexp.MustCompile(`"[^"]+"\."([^"]+)"`)
)

// losses returns what running the down direction of a migration takes, or an error that names a statement of which this
// is not known.
func (m migration) losses() (all []loss, err error) {
	for _, s := range statements(m.down) {
		found, known := lossesOf(line(s))
		if !known {
			return nil, fmt.Errorf("%s: what this statement loses is not known: %s", m.name, line(s))
		}
		all = append(all, found...)
	}
	dropped := func(table string) bool { return slices.Contains(all, loss{table: table}) }
	return slices.DeleteFunc(all, func(l loss) bool {
		switch l.is {
		case ofColumn:
			return dropped(l.table)
		case ofSequence: // it numbers rows of a table that is dropped, too
			return slices.ContainsFunc(all, func(t loss) bool {
				return t.is == ofRows && domainOf(t.table) == domainOf(l.table)
			})
		}
		return m.fills(l.table)
	}), nil
}

// lossesOf returns what a statement on one line takes. It returns false if this is not known.
func lossesOf(statement string) (all []loss, known bool) {
	named := func(found []string, is lossKind) {
		for _, name := range objectName.FindAllStringSubmatch(found[1], -1) {
			all = append(all, loss{table: name[1], is: is})
		}
	}
	if found := dropTables.FindStringSubmatch(statement); found != nil {
		named(found, ofRows)
	} else if found := changeRows.FindStringSubmatch(statement); found != nil {
		named(found, ofRows)
	} else if found := dropSequences.FindStringSubmatch(statement); found != nil {
		named(found, ofSequence)
	} else if found := alterTable.FindStringSubmatch(statement); found != nil {
		return alterLosses(objectName.FindStringSubmatch(found[1])[1], found[2])
	} else {
		return nil, definitionStatement.MatchString(statement) && !dropsColumns.MatchString(statement)
	}
	return all, len(all) > 0
}

func alterLosses(table, what string) (all []loss, known bool) {
	for _, c := range clauses(what) {
		if definitionClause.MatchString(c) {
			continue
		}
		found := dropColumn.FindStringSubmatch(c)
		if found == nil {
			found = alterType.FindStringSubmatch(c)
		}
		if found == nil {
			return nil, false
		}
		all = append(all, loss{table, found[1], ofColumn})
	}
	return all, true
}

var filledTable = regexp.MustCompile(`\nINSERT INTO "[^"]+"\."([^"]+)"`)

// fills tells whether the migration itself writes rows of a table, so that they are made again with it.
func (m migration) fills(table string) bool {
	filled := filledTable.FindAllStringSubmatch("\n"+m.up, -1)
	return slices.ContainsFunc(filled, func(f []string) bool { return f[1] == table })
}
