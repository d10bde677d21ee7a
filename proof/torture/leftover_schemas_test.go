//go:build unix

package torture

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
)

// Only schemas that are not in use are dropped.
func TestSchemasOfADeadRun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const dead, alive = "left_by_torture_dead", "left_by_torture_live"
	for _, name := range []string{dead, alive} {
		if _, err := db.Pool.Exec(t.Context(), "CREATE SCHEMA "+name+"; CREATE TABLE "+name+".t ()",
			pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	run, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := claimSchema(t.Context(), run, alive); err != nil {
		t.Fatal(err)
	}
	if cleared, err := clearSchemas(t.Context(), db.Pool, "left_by_torture_"); err != nil ||
		!slices.Equal(cleared, []string{dead}) {
		t.Errorf("cleared %v, error %v", cleared, err)
	}
	if err := run.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := db.Pool.Exec(t.Context(), "DROP SCHEMA "+alive+" CASCADE"); err != nil {
		t.Errorf("the other is gone, too: %v", err)
	}
}
