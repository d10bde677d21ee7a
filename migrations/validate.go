package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// Validate checks that this library can work with the schema: every migration is applied, and none that the library
// does not know; every table, column, constraint, index, function, trigger, sequence and type is as the migrations make
// it; and every core table of your own was made for this version of the core. It writes nothing, needs only the right
// to read the table schema_version, and works on a standby. An application that does not call [Migrator.Up] should call
// Validate when it starts.
//
// The error is a [*SchemaError] with all [Differences] that are not harmless, and the DDL that repairs each. errors.Is
// finds [workqueue.ErrSchemaVersion] in it.
func (m *Migrator) Validate(ctx context.Context) error {
	all, err := m.Differences(ctx)
	if err != nil {
		return err
	}
	err = all.Err()
	if wrong := (*SchemaError)(nil); errors.As(err, &wrong) {
		wrong.advice = m.command("validate")
	}
	return m.failed("validate", err)
}

// undefined are the error codes for a missing table or column, here of the tables of versions and domains.
var undefined = []string{"42P01", "42703"}

// Differences lists what [Migrator.Validate] finds, and the harmless differences. If migrations are pending, or the
// schema is newer than this library, it lists only these migrations, because all other differences would follow from
// them. It waits for a table that another session has locked exclusively for at most [Options.LockTimeout].
func (m *Migrator) Differences(ctx context.Context) (Differences, error) {
	has, err := m.state(ctx)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && slices.Contains(undefined, pg.Code) {
		has, err = state{}, nil // the comparison below reports what is missing
	} else if versions := m.versionDifferences(has); err != nil || len(versions) > 0 {
		return versions, m.failed("validate", err)
	}
	var have catalog
	err = pgx.BeginTxFunc(ctx, m.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead,
		AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		// Reading a definition locks the table, so the lock timeout applies.
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
			all = append(all, Difference{Object: "migration " + s.Name, Problem: "is pending: run " + m.command("up"),
				DDL: []string{}, cause: cause{pendingMigration, true}})
		}
	}
	return all
}

// command returns the command line of txwork that does the same for the schema and the domains of the Options.
func (m *Migrator) command(name string) string {
	args := []string{"migrate", name}
	for _, d := range m.domains {
		args = append(args, "--domain", string(d))
	}
	return postgres.Command(m.schema, args...)
}

// errNewer says that the schema is newer than the library.
func errNewer(version, known int64) error {
	return fmt.Errorf("%w: version %d %s", workqueue.ErrSchemaVersion, version, tooNew(known))
}

func tooNew(known int64) string {
	return fmt.Sprintf("is applied, this library knows up to %d: upgrade the library", known)
}
