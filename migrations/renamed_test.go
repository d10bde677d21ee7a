package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// No newer library makes functions name another schema: an older one finds that in each domain.
func TestARenamedSchemaOfANewerLibrary(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	former, renamed := unmade(t, db), db.Schema+"_y"
	t.Cleanup(func() { execContext(context.Background(), t, db.Pool, "DROP SCHEMA IF EXISTS "+renamed+" CASCADE") })
	up(t, newMigrator(t, db.Pool, former))
	exec(t, db.Pool, "ALTER SCHEMA "+former+" RENAME TO "+renamed)
	for _, table := range []string{"outbox", "leader", "inbox", "timers", "alarms", "jobs"} {
		exec(t, db.Pool, "COMMENT ON TABLE "+renamed+"."+table+" IS 'txwork x 1, version 2 since 1'")
	}
	m, found := newMigrator(t, db.Pool, renamed), new(migrations.SchemaError)
	if err := m.Validate(t.Context()); !errors.As(err, &found) || len(found.Differences) != 1 ||
		!strings.Contains(err.Error(), "was renamed") {
		t.Fatalf("validate says %v", err)
	}
	mend(t, db.Pool, found.Differences)
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// The functions of a renamed schema name the former one. Nothing makes a schema of that name for them to work on, and
// one difference says what happened and mends it.
func TestARenamedSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	former, renamed := unmade(t, db), db.Schema+"_y"
	t.Cleanup(func() { execContext(context.Background(), t, db.Pool, "DROP SCHEMA IF EXISTS "+renamed+" CASCADE") })
	up(t, newMigrator(t, db.Pool, former))
	exec(t, db.Pool, "ALTER SCHEMA "+former+" RENAME TO "+renamed)
	m := newMigrator(t, db.Pool, renamed)
	box, err := outbox.Open(outbox.Options{Schema: renamed, Ordering: outbox.PerKey})
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func() error {
		return pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			_, err := box.EnqueueMany(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "t", Key: "k"},
				outbox.Message{Topic: "t", Key: "k"})
			return err
		})
	}
	advice := "txwork migrate validate --schema " + renamed
	for what, err := range map[string]error{
		"migrating the renamed schema": func() error { _, err := m.Up(t.Context()); return err }(),
		"making the former schema anew": func() error {
			_, err := newMigrator(t, db.Pool, former).Up(t.Context())
			return err
		}(),
		"a worker": box.Table().CheckVersion(t.Context(), db.Pool),
	} {
		if !errors.Is(err, workqueue.ErrSchemaVersion) || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if schemaExists(t, db.Pool, former) {
		t.Fatal("the former schema was made anew")
	}
	if err := enqueue(); err == nil {
		t.Error("rows are enqueued that the functions cannot see")
	}

	found := new(migrations.SchemaError)
	if err := m.Validate(t.Context()); !errors.As(err, &found) || len(found.Differences) != 1 ||
		!strings.Contains(err.Error(), "was renamed") || !strings.Contains(err.Error(), former) {
		t.Fatalf("validate says %v", err)
	}
	mend(t, db.Pool, found.Differences)
	err = errors.Join(m.Validate(t.Context()), box.Table().CheckVersion(t.Context(), db.Pool), enqueue())
	if err != nil {
		t.Error(err)
	}
	up(t, m)
	up(t, newMigrator(t, db.Pool, former)) // which is now a schema of its own
	if _, err := box.Table().On(db.Pool).Fold(t.Context()); err != nil {
		t.Error(err)
	}
	claimed, err := box.Table().On(db.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), workqueue.DefaultLease, 10)
	if err != nil || len(claimed) != 1 {
		t.Errorf("claimed %d rows, %v", len(claimed), err)
	}
}
