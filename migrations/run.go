package migrations

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/pressly/goose/v3"
)

// prepare creates the schema and its tables of versions and domains, and records the domains that the schema is to
// have, in one transaction. It reads the state first and skips what exists, so that a role without the right to create
// anything can run Up on a schema that is up to date.
func (m *Migrator) prepare(ctx context.Context, db *sql.DB) ([]Domain, error) {
	has, err := m.history.state(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := m.refuseRenamed(ctx, db, has); err != nil {
		return nil, err
	}
	domains := m.wanted(has)
	if err := m.refuseUnrecorded(ctx, db, has, of(m.migrations, domains)); err != nil {
		return nil, err
	}
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

// forget drops the tables of versions and domains if no migration is recorded as applied. It also removes the record of
// each domain of the Options that has no migrations left, so that the next Up does not create the domain again.
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

// provider makes a goose provider over the session. Every run needs a new one, because a provider looks for the table
// of versions only once. Migrations that the application has registered globally with goose are excluded.
func (m *Migrator) provider(db *sql.DB, chosen []migration) (*goose.Provider, error) {
	layout, err := gooseLayout(chosen, m.lockMillis())
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectCustom, db, layout,
		goose.WithStore(m.history.of(chosen)),
		goose.WithSessionLocker(m.lock),
		goose.WithAllowOutofOrder(true), // a domain that is added may be older than those of the schema
		goose.WithDisableGlobalRegistry(true))
}

// What migrate is called for.
const (
	applying  = "migrate up"
	reverting = "migrate down"
)

// migrate runs Up or Down while no other migrator runs, and reports what it did. It refuses a schema that does not
// serve this library and, to revert, every newer one: this library does not know how its newest migrations are
// reverted.
func (m *Migrator) migrate(ctx context.Context, action string, run func(*sql.DB) ([]*goose.MigrationResult,
	error)) ([]Applied, error) {
	applied := []Applied{}
	tried := action
	err := m.exclusively(ctx, func(db *sql.DB) error {
		if err := m.refuseNewer(ctx, db, action == reverting); err != nil {
			return err
		}
		results, err := run(db)
		partial := new(goose.PartialError)
		if errors.As(err, &partial) {
			results, err = partial.Applied, partial.Err
			tried = action + " " + m.nameOf(partial.Failed.Source.Version)
		}
		applied = m.report(ctx, action, results)
		return m.explainRights(ctx, db, m.explainLock(ctx, db, err))
	})
	return applied, m.failed(tried, err)
}

func (m *Migrator) refuseNewer(ctx context.Context, db *sql.DB, always bool) error {
	has, err := m.history.state(ctx, db)
	if err != nil || len(has.entries) == 0 {
		return err
	}
	last := has.entries[len(has.entries)-1].version
	if last <= m.latest() {
		return nil
	}
	stands, err := m.standing(ctx, db)
	if err == nil && (always || stands.refuses != "") {
		return errNewer(last, m.latest())
	}
	return err
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
