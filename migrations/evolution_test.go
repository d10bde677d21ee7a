package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

// During a deployment, processes of the older version still start, also those that migrate when they start.
func TestUpOfAnOlderLibrary(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMigrator(t, db.Pool, db.Schema)
	up(t, m)
	exec(t, db.Pool, newer+"; COMMENT ON TABLE jobs IS 'txwork core 1, version 2 since 1'")
	if applied := up(t, m); len(applied) != 0 {
		t.Errorf("applied %v", applied)
	}
	differences, err := m.Differences(t.Context())
	if err != nil || len(differences) != 1 || !differences[0].Harmless ||
		!strings.Contains(differences[0].Problem, "which the tables still serve: upgrade the library") {
		t.Errorf("%+v, %v", differences, err)
	}
	// Only the newer library knows how its migrations are taken back.
	if _, err := m.Down(t.Context()); !errors.Is(err, workqueue.ErrSchemaVersion) ||
		!strings.Contains(err.Error(), fmt.Sprintf("version %d", latest()+1)) {
		t.Errorf("down: %v", err)
	}
}

// A domain that is added by an older library gets the versions that this library knows.
func TestAnOlderLibraryAddsADomain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	only := func(d migrations.Domain) *migrations.Migrator {
		m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema, Logger: quiet,
			Domains: []migrations.Domain{d}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	up(t, only(migrations.Outbox))
	exec(t, db.Pool, newer+"; COMMENT ON TABLE outbox IS 'txwork core 1, version 2 since 1'")
	if applied := up(t, only(migrations.Inbox)); len(applied) != 1 || applied[0].Domain != migrations.Inbox {
		t.Errorf("applied %v", applied)
	}
}
