package migrations

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Status is where one migration stands.
type Status struct {
	Version   int64     `json:"version"`
	Name      string    `json:"name"` // such as 001_outbox; empty for one that this library does not know
	Applied   bool      `json:"applied"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
}

// Status lists the migrations in the order of their versions: those of this library, and those that
// only the database knows, because a newer library was here. It writes nothing, and needs neither the
// schema nor a primary.
func (m *Migrator) Status(ctx context.Context) ([]Status, error) {
	entries, err := m.entries(ctx)
	if err != nil {
		return nil, m.failed("read the status", err)
	}
	return m.statuses(entries), nil
}

// Version is the highest version that is applied, 0 for none. Like [Migrator.Status] it writes nothing.
func (m *Migrator) Version(ctx context.Context) (int64, error) {
	entries, err := m.entries(ctx)
	if err != nil {
		return 0, m.failed("read the version", err)
	}
	if len(entries) == 0 {
		return 0, nil
	}
	return entries[len(entries)-1].version, nil
}

func (m *Migrator) entries(ctx context.Context) ([]entry, error) {
	db := m.session()
	defer db.Close()
	return m.history.entries(ctx, db)
}

func (m *Migrator) statuses(entries []entry) []Status {
	all := make([]Status, 0, len(m.migrations))
	for _, e := range entries {
		all = append(all, Status{Version: e.version, Name: m.nameOf(e.version), Applied: true, AppliedAt: e.at})
	}
	for _, known := range m.migrations {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.version == known.version }) {
			all = append(all, Status{Version: known.version, Name: known.name})
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Version, b.Version) })
	return all
}
