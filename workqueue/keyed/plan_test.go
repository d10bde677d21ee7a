package keyed_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The plans are made, and cached, while the statistics say that all rows wait. A fold reads as much for a key when
// thousands of other keys have live rows. With a plan by the claim index it would read all those rows each time.
func TestAFoldReadsItsKeysAlone(t *testing.T) {
	t.Parallel()
	const (
		atOnce = 100
		folds  = 20
		warmUp = 8 // until plans are generic, and the session's caches are filled
	)
	r := newRig(t)
	for first := 0; first < folds*atOnce; first += 500 { // a transaction writes a bounded number of keys
		r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT i, 'k' || i, 0, 0 FROM "+
			"generate_series($1::int, $2) AS i", first, first+499)
	}
	r.exec("ANALYZE work")
	tx := r.begin()
	pages := make([]int, folds)
	for i := range pages {
		pages[i] = pagesOf(r, tx, fmt.Sprintf("SELECT FROM work_key_fold(%d)", atOnce))
	}
	var live int
	r.ok(tx.QueryRow(t.Context(), "SELECT count(*) FROM work WHERE NOT waiting").Scan(&live))
	if live != folds*atOnce {
		t.Fatalf("%d rows are through, want %d", live, folds*atOnce)
	}
	early, late := pages[warmUp], pages[folds-1]
	t.Logf("%d notes: %d pages, later %d", atOnce, early, late)
	if 2*late > 3*early {
		t.Errorf("a fold of %d notes reads %d pages, beside more live rows of other keys %d", atOnce, early, late)
	}
}

// pagesOf runs a statement and returns how many pages it reads.
func pagesOf(r *rig, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, statement string) int {
	r.Helper()
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	r.ok(conn.QueryRow(r.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+statement).Scan(&plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}
