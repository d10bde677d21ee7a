package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// Validate reports whether the schema is what this library works with: every migration applied, none that it does not
// know, every table, column, constraint, index, function, trigger, sequence and type as the migrations make it, and
// every core table of your own made for this version of the core. It writes nothing, needs no right but to read the
// table schema_version, and serves on a standby. An application calls it at its start, where it does not call
// [Migrator.Up].
//
// What it finds is a [*SchemaError] with all [Differences] that matter, and what mends each. errors.Is finds
// [workqueue.ErrSchemaVersion] in it.
func (m *Migrator) Validate(ctx context.Context) error {
	all, err := m.Differences(ctx)
	if err != nil {
		return err
	}
	return m.failed("validate", all.Err())
}

// undefined are the codes of a table or a column of the records that is not there.
var undefined = []string{"42P01", "42703"}

// Differences lists what [Migrator.Validate] looks at, and beside it what does no harm. Where migrations are pending,
// or the schema is ahead of this library, it lists those alone: all else would only repeat it. It waits for a table
// that somebody has locked exclusively no longer than [Options.LockTimeout].
func (m *Migrator) Differences(ctx context.Context) (Differences, error) {
	has, err := m.state(ctx)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && slices.Contains(undefined, pg.Code) {
		has, err = state{}, nil // the catalog tells what is missing
	} else if versions := m.versionDifferences(has); err != nil || len(versions) > 0 {
		return versions, m.failed("validate", err)
	}
	var have catalog
	err = pgx.BeginTxFunc(ctx, m.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead,
		AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		// definitions are read under the table's lock
		if _, err := tx.Exec(ctx, "SET LOCAL "+m.lockSetting()); err != nil {
			return err
		}
		have, err = readCatalog(ctx, tx, m.schema)
		return err
	})
	if err != nil {
		return nil, m.failed("validate", err)
	}
	return m.differences(of(m.migrations, m.wanted(has)), have), nil
}

func (m *Migrator) differences(wanted []migration, have catalog) Differences {
	routines := routines(wanted)
	want := snapshot(have.schema, routines).of(wanted)
	return compare(want, have, newMender(m.schema, routines, want))
}

func (m *Migrator) versionDifferences(has state) Differences {
	all := Differences{}
	for _, s := range m.statuses(has) {
		switch {
		case s.Name == "":
			all = append(all, Difference{Object: fmt.Sprintf("version %d", s.Version), Problem: tooNew(m.latest()),
				DDL: []string{}})
		case !s.Applied:
			all = append(all, Difference{Object: "migration " + s.Name, Problem: "is pending: run `txwork migrate up`",
				DDL: []string{}})
		}
	}
	return all
}

// errNewer says that the schema is ahead of the library.
func errNewer(version, known int64) error {
	return fmt.Errorf("%w: version %d %s", workqueue.ErrSchemaVersion, version, tooNew(known))
}

func tooNew(known int64) string {
	return fmt.Sprintf("is applied, this library knows up to %d: upgrade the library", known)
}
