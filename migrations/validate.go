package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// Validate checks that this library can work with the schema: every migration is applied, and the tables serve this
// library, also if a newer one has migrated them; every table, column, constraint, index, function, trigger, sequence
// and type is as the migrations make it; and every core table of your own serves this version of the core. It writes
// nothing, needs only the right to read the table schema_version, and works on a standby. An application that does not
// call [Migrator.Up] should call Validate when it starts.
//
// The error is a [*SchemaError] with all [Differences] that are not harmless, and the DDL that repairs each. errors.Is
// finds [workqueue.ErrSchemaVersion] in it.
func (m *Migrator) Validate(ctx context.Context) error {
	all, err := m.Differences(ctx)
	if err != nil {
		return err
	}
	err = all.Err()
	if wrong, ok := errors.AsType[*SchemaError](err); ok {
		wrong.advice = m.command("validate")
	}
	return m.failed("validate", err)
}

// undefined are the error codes for a missing table or column, here of the tables of versions and domains.
var undefined = []string{"42P01", "42703"}

func isUndefined(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && slices.Contains(undefined, pg.Code)
}

// Differences lists what [Migrator.Validate] finds, and the harmless differences. If the schema has no tables of this
// library, or is so new that it does not serve it, it lists only the migrations, because all other differences would
// follow from them. A schema that is newer and serves this library differs harmlessly; in the domains of newer
// versions, and in those with pending migrations, only damage is listed, such as an invalid index. It waits for a table
// that another session has locked exclusively for at most [Options.LockTimeout].
func (m *Migrator) Differences(ctx context.Context) (Differences, error) {
	has, stands, err := m.stateAndStanding(ctx)
	damaged := isUndefined(err) // the comparison below reports what is missing
	if damaged {
		has, err = m.recorded(ctx)
	}
	if err != nil {
		return nil, m.failed("validate", err)
	}
	v := versionFindings{all: Differences{}, known: true}
	if !damaged {
		v = m.versionDifferences(has, stands)
	}
	if !v.known {
		return v.all, nil
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
	beyond := slices.Concat(stands.newer, v.beyond)
	return append(v.all, m.differences(of(m.migrations, m.wanted(has)), have, beyond)...), nil
}

func (m *Migrator) stateAndStanding(ctx context.Context) (has state, stands standing, err error) {
	err = m.reading(ctx, func(tx *sql.Tx) error {
		if has, err = m.history.state(ctx, tx); err != nil {
			return err
		}
		stands, err = m.standing(ctx, tx)
		return err
	})
	return has, stands, err
}

func (m *Migrator) differences(wanted []migration, have catalog, beyond []Domain) Differences {
	routines := routines(wanted)
	want := snapshot(have.schema, routines).of(wanted)
	return compare(want, have, newMender(m.schema, routines, want), beyond)
}

// versionFindings are what the recorded migrations say about a schema.
type versionFindings struct {
	all    Differences
	beyond []Domain // those of which only damage can be told, because migrations are pending
	known  bool     // there are tables, and this library knows what they should be like
}

func (m *Migrator) versionDifferences(has state, stands standing) versionFindings {
	unrecorded := has.unrecorded(of(m.migrations, m.wanted(has)), stands.marks)
	v := versionFindings{all: append(Differences{}, m.unrecordedDifferences(has, unrecorded)...),
		known: len(has.entries)+len(unrecorded) > 0}
	if !has.versioned { // the DDL of what is not recorded makes these tables
		v.beyond = append(v.beyond, recordsDomain)
	}
	for _, s := range m.statuses(has) {
		switch {
		case s.Name == "":
			v.all = append(v.all, m.newerVersion(s.Version, stands))
			v.known = v.known && stands.refuses == ""
		case s.Applied, slices.ContainsFunc(unrecorded, func(u migration) bool { return u.version == s.Version }):
		default:
			v.all = append(v.all, Difference{Object: "migration " + s.Name,
				Problem: "is pending: run " + m.command("up"), DDL: []string{}, cause: cause{pendingMigration, true}})
			v.beyond = append(v.beyond, s.Domain)
		}
	}
	return v
}

// newerVersion reports a migration that this library does not know. It is harmless while the tables serve this library.
func (m *Migrator) newerVersion(v int64, stands standing) Difference {
	d := Difference{Object: fmt.Sprintf("version %d", v), Problem: tooNew(m.latest()), DDL: []string{}}
	if stands.refuses == "" {
		d.Harmless = true
		d.Problem = fmt.Sprintf("is applied, this library knows up to %d, which the tables still serve: upgrade the "+
			"library before the next such migration", m.latest())
	}
	return d
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
