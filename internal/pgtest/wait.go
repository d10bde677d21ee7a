package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// SomebodyWaits tells whether a statement that uses the table waits for another transaction. The table's name is
// qualified.
func SomebodyWaits(t testing.TB, pool *pgxpool.Pool, table string) (waits bool) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `
		SELECT EXISTS (SELECT FROM pg_locks AS w JOIN pg_locks AS r USING (pid)
		WHERE NOT w.granted AND r.relation = $1::regclass)`, table).Scan(&waits)
	if err != nil {
		t.Fatalf("looking who waits: %v", err)
	}
	return waits
}
