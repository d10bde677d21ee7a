package workqueue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/txwork/txwork/internal/mark"
	"github.com/txwork/txwork/internal/postgres"
)

// checkCompanion checks the comment of the companion. Nil: there is no such table.
func (t *Table) checkCompanion(ctx context.Context, comment *string) error {
	c := t.spec.Companion
	if c.Table == "" {
		return nil
	}
	name := t.spec.Schema + "." + c.Table
	if comment == nil {
		return fmt.Errorf("txwork: %w: table %s does not exist: %s, or name its schema in the options", ErrSchemaVersion,
			name, postgres.Migrate(t.spec.Schema, t.spec.Table))
	}
	have, ok := mark.Parse(*comment)
	if !ok {
		return notOurs(name, *comment, fmt.Sprintf("txwork %s %d", c.Table, c.Version))
	}
	return t.checkVersions(ctx, name, []versions{
		{have.Core, mark.Program{Is: c.Version, Oldest: c.Oldest}, "", t.upgraded()},
	})
}

// notOurs refuses a table whose comment says no version.
func notOurs(name, comment, want string) error {
	return fmt.Errorf("txwork: %w: table %s carries no version (its comment is %q, want %q): it was not made by txwork",
		ErrSchemaVersion, name, comment, want)
}

// checkMark checks the comment of the table.
func (t *Table) checkMark(ctx context.Context, comment *string) error {
	if comment == nil {
		comment = new(string)
	}
	have, ok := mark.Parse(*comment)
	if !ok {
		return notOurs(t.Name(), *comment, t.spec.mark().String())
	}
	return t.checkVersions(ctx, t.Name(), []versions{
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

// checkVersions checks the versions of the table or its companion.
func (t *Table) checkVersions(ctx context.Context, name string, all []versions) error {
	for _, v := range all {
		switch fit := v.table.For(v.program); {
		case fit == mark.TooOld:
			return fmt.Errorf("txwork: %w: table %s has version %d%s, this %s needs %d: %s", ErrSchemaVersion, name,
				v.table.Is, v.of, v.upgrade, v.program.Oldest, postgres.Migrate(t.spec.Schema, t.spec.Table))
		case fit == mark.TooNew:
			return fmt.Errorf("txwork: %w: table %s has version %d%s, which serves version %d and later, "+
				"this %s has %d: upgrade the %[6]s", ErrSchemaVersion, name, v.table.Is, v.of, v.table.Since,
				v.upgrade, v.program.Is)
		case fit == mark.Pending && t.warned.CompareAndSwap(false, true):
			t.telemetry.Log(ctx, slog.LevelWarn, "a migration of the table is pending",
				slog.String("of", name), slog.Int("version", v.table.Is), slog.Int("known", v.program.Is),
				slog.String("advice", postgres.Migrate(t.spec.Schema, t.spec.Table)))
		}
	}
	return nil
}
