package migrations_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// PostgreSQL refuses to delete or update rows of a published table that has neither a primary key nor a replica
// identity. Every table of txwork's has one of them, so that a publication FOR ALL TABLES, which anyone may create,
// does not stop folds. Messages of a log, whose partitions have neither, are never updated or deleted.
func TestPublicationsStopNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...))
	rows, err := db.Pool.Query(t.Context(), `
		SELECT c.oid::regclass::text, (SELECT quote_ident(a.attname) FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum = 1)
		FROM pg_class AS c WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' AND NOT c.relispartition`, db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Column string }])
	if err != nil || len(tables) < 20 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	for i, table := range tables {
		if _, err := tx.Exec(t.Context(), fmt.Sprintf("CREATE PUBLICATION %s_%d FOR TABLE %s", db.Schema, i,
			table.Name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range tables {
		for _, statement := range []string{
			fmt.Sprintf("UPDATE %[1]s SET %[2]s = %[2]s WHERE false", table.Name, table.Column),
			fmt.Sprintf("DELETE FROM %s WHERE false", table.Name),
		} {
			err := pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), statement)
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	}
}
