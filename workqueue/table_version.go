package workqueue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/txwork/txwork/internal/mark"
	"github.com/txwork/txwork/internal/postgres"
)

// Versions of the core: of the columns, triggers and functions that every table has. ADR 0063 says when they are
// raised.
const (
	// SchemaVersion is the version for which this library was written, and which the tables get that it creates.
	SchemaVersion = 1

	// OldestSchemaVersion is the oldest version of a table with which this library works.
	OldestSchemaVersion = 1

	// oldestLibrary is the SchemaVersion of the oldest library that can use the tables that this one creates.
	oldestLibrary = 1
)

// mark is the comment of the table: its versions, and the programs that it serves.
func (s Spec) mark() mark.Mark {
	s = s.withDefaults()
	return mark.Mark{Core: mark.Version{Is: SchemaVersion, Since: oldestLibrary},
		Table: mark.Version{Is: s.Version, Since: s.OldestProgram}}
}

func (s Spec) validateVersion() error {
	if s.Version < 1 || s.Version > maxVersion {
		return invalid("version", "is %d, it must be between 1 and %d", s.Version, maxVersion)
	}
	if s.OldestTable < 1 || s.OldestTable > s.Version {
		return invalid("oldest table", "is %d, it must be between 1 and the version %d", s.OldestTable, s.Version)
	}
	if s.OldestProgram < 1 || s.OldestProgram > s.Version {
		return invalid("oldest program", "is %d, it must be between 1 and the version %d", s.OldestProgram, s.Version)
	}
	return nil
}

// maxVersion is the greatest number that a comment can have.
const maxVersion = 999_999_999

// checkMark checks the comment of the table.
func (t *Table) checkMark(ctx context.Context, comment *string) error {
	if comment == nil {
		comment = new(string)
	}
	have, ok := mark.Parse(*comment)
	if !ok {
		return fmt.Errorf("txwork: %w: table %s carries no version (its comment is %q, want %q): it was not made by txwork",
			ErrSchemaVersion, t.Name(), *comment, t.spec.mark())
	}
	return t.checkVersions(ctx, []versions{
		{have.Core, mark.Program{Is: SchemaVersion, Oldest: OldestSchemaVersion}, " of the core", "library"},
		{have.Table, mark.Program{Is: t.spec.Version, Oldest: t.spec.OldestTable}, "", t.upgraded()},
	})
}

// upgraded is what is to be upgraded if the table is newer: the library has the Specs of the domains.
func (t *Table) upgraded() string {
	if postgres.Migrated(t.spec.Table) {
		return "library"
	}
	return "program"
}

// versions are one of the two versions of a table, and what this program says about it.
type versions struct {
	table   mark.Version
	program mark.Program
	of      string // what has the version, after a number
	upgrade string // what is to be upgraded if the table is newer
}

func (t *Table) checkVersions(ctx context.Context, all []versions) error {
	for _, v := range all {
		switch fit := v.table.For(v.program); {
		case fit == mark.TooOld:
			return fmt.Errorf("txwork: %w: table %s has version %d%s, this %s needs %d: %s", ErrSchemaVersion, t.Name(),
				v.table.Is, v.of, v.upgrade, v.program.Oldest, postgres.Migrate(t.spec.Schema, t.spec.Table))
		case fit == mark.TooNew:
			return fmt.Errorf("txwork: %w: table %s has version %d%s, which serves version %d and later, "+
				"this %s has %d: upgrade the %[6]s", ErrSchemaVersion, t.Name(), v.table.Is, v.of, v.table.Since,
				v.upgrade, v.program.Is)
		case fit == mark.Pending && t.told.CompareAndSwap(false, true):
			t.telemetry.Log(ctx, slog.LevelWarn, "a migration of the table is pending",
				slog.Int("version", v.table.Is), slog.Int("known", v.program.Is),
				slog.String("advice", postgres.Migrate(t.spec.Schema, t.spec.Table)))
		}
	}
	return nil
}
