package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"
)

// Status is the state of one migration.
type Status struct {
	Version   int64     `json:"version"`
	Domain    Domain    `json:"domain"`              // to which it belongs
	Name      string    `json:"name"`                // such as 001_outbox; empty for one that this library does not know
	Applied   bool      `json:"applied"`             // false: it is pending
	AppliedAt time.Time `json:"applied_at,omitzero"` // missing while it is pending
}

// Status lists the migrations of the schema's domains in the order of their versions: those of this library, and those
// that a newer library has applied. It writes nothing, works on a standby, and does not need the schema to exist.
func (m *Migrator) Status(ctx context.Context) ([]Status, error) {
	has, err := m.state(ctx)
	if err != nil {
		return nil, m.failed("read the status", err)
	}
	return m.statuses(has), nil
}

// Version returns the highest version that is applied, and 0 if none is. Like [Migrator.Status] it writes nothing.
func (m *Migrator) Version(ctx context.Context) (int64, error) {
	has, err := m.state(ctx)
	if err != nil {
		return 0, m.failed("read the version", err)
	}
	if len(has.entries) == 0 {
		return 0, nil
	}
	return has.entries[len(has.entries)-1].version, nil
}

func (m *Migrator) state(ctx context.Context) (has state, err error) {
	err = m.reading(ctx, func(tx *sql.Tx) error {
		has, err = m.history.state(ctx, tx)
		return err
	})
	return has, err
}

func (m *Migrator) statuses(has state) []Status {
	all := make([]Status, 0, len(m.migrations))
	domains := m.wanted(has)
	for _, e := range has.entries {
		known, ok := m.find(e.version)
		if !ok || slices.Contains(domains, known.domain) {
			all = append(all, Status{Version: e.version, Domain: known.domain, Name: known.name, Applied: true,
				AppliedAt: e.at})
		}
	}
	for _, known := range of(m.migrations, domains) {
		if !slices.ContainsFunc(has.entries, func(e entry) bool { return e.version == known.version }) {
			all = append(all, Status{Version: known.version, Domain: known.domain, Name: known.name})
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Version, b.Version) })
	return all
}
