package security_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// A bound is a parameter of a function that says for how many rows, or for how long, a call is.
type bound struct {
	Function, Call, Name, Type string
}

// Every function that takes a number of rows or a lease refuses what the Go API refuses: NULL as a LIMIT is all rows,
// and a lease of years hides for years that a worker has died.
func TestEveryBoundOfTheGoAPIHoldsInSQL(t *testing.T) {
	f := newFixture(t)
	rows, err := f.db.Pool.Query(t.Context(), `
		SELECT p.proname::text,
		       CASE p.prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT ' END || p.oid::regproc || '(' || (
		           SELECT string_agg(CASE
		               WHEN i.n = a.n THEN '%s'
		               WHEN i.name = 'kind' THEN '''reap_expired'''
		               WHEN i.type = 'interval'::regtype THEN '''1 minute'''
		               WHEN i.type = 'uuid'::regtype THEN '''00000000-002a-8000-8000-000000000000'''
		               WHEN i.type = 'uuid[]'::regtype THEN '''{}'''
		               WHEN i.type = 'integer'::regtype THEN '1'
		               ELSE 'NULL' END || '::' || i.type::regtype, ', ' ORDER BY i.n)
		           FROM unnest(p.proargtypes::oid[], p.proargnames) WITH ORDINALITY AS i (type, name, n)
		           WHERE i.type IS NOT NULL) || ')',
		       a.name, a.type::regtype::text
		FROM pg_proc AS p
		JOIN pg_namespace AS s ON s.oid = p.pronamespace,
		     unnest(p.proargtypes::oid[], p.proargnames) WITH ORDINALITY AS a (type, name, n)
		WHERE s.nspname = $1 AND a.type IS NOT NULL
		  AND (a.name IN ('batch_size', 'max_rows', 'max_notes', 'most', 'lease')
		       OR a.name = 'n' AND p.proname LIKE '%\_fetch')
		ORDER BY 1, 3`, f.db.Schema)
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[bound])
	must(t, err)
	seen := map[string]bool{}
	for _, b := range all {
		seen[b.Name] = true
		for _, value := range b.refused() {
			call := fmt.Sprintf(b.Call, value)
			_, err := f.db.Pool.Exec(t.Context(), call)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "22023" || !strings.Contains(pg.Message, "must be between 1 and") {
				t.Errorf("%s: %v", call, err)
			}
		}
	}
	if len(all) < 90 || len(seen) != 6 {
		t.Errorf("only %d such parameters are found, with the names %v", len(all), seen)
	}
	t.Logf("%d parameters: %v", len(all), all)
}

// refused are values just beyond the bounds, and none.
func (b bound) refused() []string {
	if b.Type == "interval" {
		return []string{"'0'", "'999 milliseconds'", "'86401 seconds'", "'1 month'", "NULL"}
	}
	return []string{"0", fmt.Sprint(workqueue.MaxBatch + 1), "2147483647", "NULL"}
}

// A retention that Go refuses is refused by every function that takes one, before anything is maintained.
func TestEveryRetentionIsBounded(t *testing.T) {
	f := newFixture(t)
	calls := 0
	for table := range queues {
		for _, call := range []string{"SELECT " + table + "_purge", "CALL " + table + "_maintain"} {
			for _, name := range []string{"retention", "failed_retention"} {
				for _, value := range []string{"-1 second", "87601 hours"} {
					calls++
					_, err := f.db.Pool.Exec(t.Context(), fmt.Sprintf("%s(%s => '%s')", call, name, value))
					var pg *pgconn.PgError
					if !errors.As(err, &pg) || pg.Code != "22023" || pg.ColumnName != name || pg.Hint == "" {
						t.Errorf("%s with a %s of %s: %v", call, name, value, err)
					}
				}
			}
		}
	}
	if calls < 32 {
		t.Errorf("there are only %d calls", calls)
	}
}
