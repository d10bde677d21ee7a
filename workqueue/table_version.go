package workqueue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/txwork/txwork/internal/mark"
	"github.com/txwork/txwork/internal/postgres"
)

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
		case fit == mark.Pending && t.warned.CompareAndSwap(false, true):
			t.telemetry.Log(ctx, slog.LevelWarn, "a migration of the table is pending",
				slog.Int("version", v.table.Is), slog.Int("known", v.program.Is),
				slog.String("advice", postgres.Migrate(t.spec.Schema, t.spec.Table)))
		}
	}
	return nil
}
