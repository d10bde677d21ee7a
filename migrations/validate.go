package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/txwork/txwork/workqueue"
)

// Validate reports whether the schema is what this library works with: every migration applied, none
// that it does not know, and every core table in the schema, your own included, made for this version of
// the core. It writes nothing. An application calls it at its start, where it does not call
// [Migrator.Up].
//
// What it finds is a [workqueue.ErrSchemaVersion] that lists all problems, a line each, with what to do.
func (m *Migrator) Validate(ctx context.Context) error {
	entries, err := m.entries(ctx)
	if err != nil {
		return m.failed("validate", err)
	}
	// Tables of another version would only repeat what the versions say.
	if err := m.validateVersions(m.statuses(entries)); err != nil {
		return m.failed("validate", err)
	}
	tables, err := m.coreTables(ctx)
	if err != nil {
		return m.failed("validate", err)
	}
	return m.failed("validate", validateTables(tables))
}

func (m *Migrator) validateVersions(all []Status) error {
	var problems []error
	for _, s := range all {
		switch {
		case s.Name == "":
			problems = append(problems, errNewer(s.Version, m.latest()))
		case !s.Applied:
			problems = append(problems, fmt.Errorf("%w: migration %s is pending: run `txwork migrate up`", workqueue.ErrSchemaVersion, s.Name))
		}
	}
	return errors.Join(problems...)
}

// A coreTable is a table whose comment says for which version of the core it was made. Version 0 is a
// table of ours that does not say it, or does not exist.
type coreTable struct {
	name    string
	version int
}

func (m *Migrator) coreTables(ctx context.Context) ([]coreTable, error) {
	rows, err := m.pool.Query(ctx, `
		SELECT c.relname::text, coalesce(obj_description(c.oid, 'pg_class'), '')
		FROM pg_catalog.pg_class AS c
		JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
		ORDER BY c.relname`, m.schema)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var tables []coreTable
	for rows.Next() {
		var t coreTable
		var comment string
		if err := rows.Scan(&t.name, &comment); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(comment, "txwork core %d", &t.version); err == nil {
			tables = append(tables, t)
		}
	}
	return withOurs(tables), rows.Err()
}

// withOurs adds the tables that the migrations made and that were not found.
func withOurs(tables []coreTable) []coreTable {
	for _, name := range coreTables {
		if !slices.ContainsFunc(tables, func(t coreTable) bool { return t.name == name }) {
			tables = append(tables, coreTable{name: name})
		}
	}
	return tables
}

func validateTables(tables []coreTable) error {
	var problems []error
	for _, t := range tables {
		if problem := t.problem(); problem != "" {
			problems = append(problems, fmt.Errorf("%w: table %s %s", workqueue.ErrSchemaVersion, t.name, problem))
		}
	}
	return errors.Join(problems...)
}

func (t coreTable) problem() string {
	const current = workqueue.SchemaVersion
	switch {
	case t.version == current:
		return ""
	case t.version == 0:
		return "is missing or not the one that the migrations made: restore it from a backup, or migrate down and up again"
	case t.version > current:
		return fmt.Sprintf("was made for version %d of the core, this library works with %d: upgrade the library", t.version, current)
	default:
		return fmt.Sprintf("was made for version %d of the core, this library works with %d: migrate it, `txwork table new` prints its present form", t.version, current)
	}
}
