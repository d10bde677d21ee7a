package migrations_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// A row whose writer gives no id gets one that begins with the time, in each table with a core: keys then grow with
// time, and arrivals can be counted.
func TestIDsBeginWithTheTime(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigratorOf(t, db.Pool, db.Schema, migrations.Domains()...))
	rows, err := db.Pool.Query(t.Context(), `SELECT c.table_name, c.column_default FROM information_schema.columns AS c
		WHERE c.table_schema = $1 AND c.column_name = 'id' AND EXISTS (SELECT FROM information_schema.columns AS o
			WHERE o.table_schema = $1 AND o.table_name = c.table_name AND o.column_name = 'owner_token')`, db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	defaults := map[string]string{}
	for rows.Next() {
		var table, byDefault string
		if err := rows.Scan(&table, &byDefault); err != nil {
			t.Fatal(err)
		}
		tables, defaults[table] = append(tables, table), byDefault
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	for _, table := range []string{"outbox", "inbox", "timers", "jobs"} {
		if !slices.Contains(tables, table) {
			t.Errorf("%s has no default for ids", table)
		}
	}
	for _, table := range tables {
		type madeAt struct {
			ID  uuid.UUID
			Now time.Time // after the id was made
		}
		rows, err := db.Pool.Query(t.Context(), "SELECT "+defaults[table]+" AS id, clock_timestamp() AS now"+
			" FROM generate_series(1, 1000)")
		if err != nil {
			t.Fatal(err)
		}
		made, err := pgx.CollectRows(rows, pgx.RowToStructByName[madeAt])
		if err != nil {
			t.Fatal(err)
		}
		var ids []uuid.UUID
		for _, m := range made {
			at := time.Unix(m.ID.Time().UnixTime())
			if m.ID.Version() != 7 || m.ID.Variant() != uuid.RFC4122 || m.Now.Sub(at) > time.Minute || at.After(m.Now) {
				t.Fatalf("%s: %v is version %d, variant %v, of %v, and was made before %v", table, m.ID, m.ID.Version(),
					m.ID.Variant(), at, m.Now)
			}
			ids = append(ids, m.ID)
		}
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		if len(slices.Compact(ids)) != len(made) {
			t.Errorf("%s: an id was made twice", table)
		}
	}
}
