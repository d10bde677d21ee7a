package migrations

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/pressly/goose/v3"
)

// prepare makes the schema and its tables of versions and domains, and notes which domains it is to have, in one
// transaction. It looks first, so that a schema that is up to date can be confirmed by a role that may not create
// anything.
func (m *Migrator) prepare(ctx context.Context, db *sql.DB) ([]Domain, error) {
	has, err := m.history.state(ctx, db)
	if err != nil {
		return nil, err
	}
	domains := m.wanted(has)
	text := prologue(m.schema)
	if len(has.domains) > 0 {
		text = ""
	}
	for _, d := range domains {
		if !slices.Contains(has.domains, d) {
			text += recordDomain(m.schema, d)
		}
	}
	if text != "" {
		_, err = db.ExecContext(ctx, text)
	}
	return domains, err
}

// forget drops the tables of versions and domains once nothing is recorded as applied. Of domains that were asked for
// it forgets those that are gone, so that the next Up does not bring them back.
func (m *Migrator) forget(ctx context.Context, db *sql.DB) error {
	has, err := m.history.state(ctx, db)
	if err != nil || len(has.domains) == 0 {
		return err
	}
	text := epilogue(m.schema)
	for _, d := range m.domains {
		if len(has.applied(of(m.migrations, []Domain{d}))) == 0 {
			text = forgetDomain(m.schema, d) + text
		}
	}
	_, err = db.ExecContext(ctx, text)
	return err
}

// provider is goose over the session. Each run has its own, since a provider looks for the table of
// versions only once in its life. What the application registered with goose itself stays out of it.
func (m *Migrator) provider(db *sql.DB, chosen []migration) (*goose.Provider, error) {
	layout, err := gooseLayout(chosen)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectCustom, db, layout,
		goose.WithStore(m.history.of(chosen)),
		goose.WithSessionLocker(m.lock),
		goose.WithDisableGlobalRegistry(true))
}

// migrate runs one direction alone, unless the schema is ahead of this library, and reports what it did.
func (m *Migrator) migrate(ctx context.Context, action string, run func(*sql.DB) ([]*goose.MigrationResult,
	error)) ([]Applied, error) {
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
	has, err := m.history.state(ctx, db)
	if err != nil || len(has.entries) == 0 {
		return err
	}
	if last := has.entries[len(has.entries)-1].version; last > m.latest() {
		return errNewer(last, m.latest())
	}
	return nil
}

func (m *Migrator) report(ctx context.Context, action string, results []*goose.MigrationResult) []Applied {
	applied := make([]Applied, len(results))
	for i, r := range results {
		known, _ := m.find(r.Source.Version)
		applied[i] = Applied{Version: known.version, Domain: known.domain, Name: known.name, Duration: r.Duration}
		m.logger.InfoContext(ctx, action, "version", r.Source.Version, "name", applied[i].Name, "took", r.Duration)
	}
	return applied
}

func (m *Migrator) nameOf(version int64) string {
	known, _ := m.find(version)
	return known.name
}
