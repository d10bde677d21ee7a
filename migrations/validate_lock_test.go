package migrations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// A program that validates when it starts must not wait for long-running DDL.
func TestValidateWaitsForALockedTableNoLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m, err := migrations.New(db.Pool, migrations.Options{Schema: db.Schema, Logger: quiet,
		LockTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	up(t, newMigrator(t, db.Pool, db.Schema))
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		if err := m.Validate(t.Context()); err == nil || !strings.Contains(err.Error(), "lock timeout") {
			t.Errorf("Validate: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
