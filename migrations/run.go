package migrations

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3"
)

// prepare makes the schema and its table of versions, in one transaction. It looks first, so that a
// schema that is up to date can be confirmed by a role that may not create anything.
func (m *Migrator) prepare(ctx context.Context, db *sql.DB) error {
	if exists, err := m.history.TableExists(ctx, db); err != nil || exists {
		return err
	}
	_, err := db.ExecContext(ctx, prologue(m.schema))
	return err
}

// forgetEmpty drops the table of versions once it records nothing.
func (m *Migrator) forgetEmpty(ctx context.Context, db *sql.DB) error {
	exists, err := m.history.TableExists(ctx, db)
	if err != nil || !exists {
		return err
	}
	entries, err := m.history.entries(ctx, db)
	if err != nil || len(entries) > 0 {
		return err
	}
	_, err = db.ExecContext(ctx, dropVersionTable(m.schema))
	return err
}

// provider is goose over the session. Each run has its own, since a provider looks for the table of
// versions only once in its life. What the application registered with goose itself stays out of it.
func (m *Migrator) provider(db *sql.DB) (*goose.Provider, error) {
	return goose.NewProvider(goose.DialectCustom, db, m.layout,
		goose.WithStore(m.history),
		goose.WithSessionLocker(m.lock),
		goose.WithDisableGlobalRegistry(true))
}

// migrate runs one direction alone, unless the schema is ahead of this library, and reports what it did.
func (m *Migrator) migrate(ctx context.Context, action string, run func(*sql.DB) ([]*goose.MigrationResult, error)) ([]Applied, error) {
	applied := []Applied{}
	tried := action
	err := m.exclusively(ctx, func(db *sql.DB) error {
		if err := m.refuseNewer(ctx, db); err != nil {
			return err
		}
		results, err := run(db)
		partial := new(goose.PartialError)
		if errors.As(err, &partial) {
			results, err = partial.Applied, partial.Err
			tried = action + " " + m.nameOf(partial.Failed.Source.Version)
		}
		applied = m.report(ctx, action, results)
		return m.explainLock(ctx, db, err)
	})
	return applied, m.failed(tried, err)
}

func (m *Migrator) refuseNewer(ctx context.Context, db *sql.DB) error {
	entries, err := m.history.entries(ctx, db)
	if err != nil || len(entries) == 0 {
		return err
	}
	if last := entries[len(entries)-1].version; last > m.latest() {
		return errNewer(last, m.latest())
	}
	return nil
}

func (m *Migrator) report(ctx context.Context, action string, results []*goose.MigrationResult) []Applied {
	applied := make([]Applied, len(results))
	for i, r := range results {
		applied[i] = Applied{Version: r.Source.Version, Name: m.nameOf(r.Source.Version), Duration: r.Duration}
		m.logger.InfoContext(ctx, action, "version", r.Source.Version, "name", applied[i].Name, "took", r.Duration)
	}
	return applied
}

func (m *Migrator) nameOf(version int64) string {
	known, _ := m.find(version)
	return known.name
}
