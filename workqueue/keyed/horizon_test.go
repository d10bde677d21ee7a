package keyed_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue/keyed"
)

// While a transaction stays open, vacuum cannot clean up ended rows. The pages that a fold or an insert reads for a key
// must not grow with the rows that the key has had since.
func TestKeysCostTheSameBesideAnOpenTransaction(t *testing.T) {
	t.Parallel()
	const first, last = 60, 40 // rows before those measured at the start, and rows measured, also at the end
	rows := pgtest.Size(140, 700)
	for name, test := range map[string]struct {
		rule    keyed.Rule
		backlog bool
	}{
		"an ordered key with a backlog":   {keyed.Ordered{Key: "k"}, true},
		"an ordered key, a row at a time": {keyed.Ordered{Key: "k"}, false},
		"a limited key with a backlog":    {keyed.Limited{Key: "k", MaxRunning: 1}, true},
		"a limited key, a row at a time":  {keyed.Limited{Key: "k", MaxRunning: 1}, false},
		"a key with a rate and a backlog": {keyed.Limited{Key: "k", MaxRunning: 1, Rate: keyed.MaxRate, Burst: 1000},
			true},
		"a key with a rate, a row at a time": {keyed.Limited{Key: "k", Rate: keyed.MaxRate, Burst: 1000},
			false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			g := test.rule
			open := r.begin()
			_, err := open.Exec(t.Context(), "SELECT txid_current()")
			r.ok(err)
			conn, err := r.pool.Acquire(t.Context())
			r.ok(err)
			defer conn.Release()
			if test.backlog {
				for i := range rows {
					r.insert(row(i, g))
				}
			}
			// The minimum counts: after a CREATE SCHEMA of another test, the server plans functions anew, and reads the
			// catalogs for that.
			early, late, updates := math.MaxInt, math.MaxInt, 0
			since := ask[string](r, "SELECT now()::text") // where a folder goes on that has taken all notes before
			for i := range rows {
				pages := 0
				if !test.backlog {
					pages += pagesOf(r, conn, fmt.Sprintf("INSERT INTO work (n, concurrency_key, key_limit, key_policy, "+
						"key_rate, key_burst) SELECT %d, %s", i, values(g)))
				}
				pages += pagesOf(r, conn, fmt.Sprintf("SELECT FROM work_key_fold(1000, '%s')", since))
				if i >= first && i < first+last {
					early = min(early, pages)
				}
				if i >= rows-last {
					late = min(late, pages)
				}
				if i >= rows-70 { // enough rows that the limited key's state row is replaced once
					updates = max(updates, ask[int](r, "SELECT coalesce(max(updates), 0) FROM work_key_state"))
				}
				token, ns, ids := r.claim()
				if len(ns) != 1 {
					t.Fatalf("%d rows are through, want one\n%s", len(ns), r.dump())
				}
				since = ask[string](r, "SELECT now()::text")
				_, err := r.queue.Ack(context.Background(), token, ids)
				r.ok(err)
			}
			_, limited := g.(keyed.Limited)
			if limited && (updates < 32 || updates > 64) || !limited && updates > 0 {
				t.Errorf("rows of what is known are updated %d times: each is a dead version, or a row, more", updates)
			}
			t.Logf("%d pages a row, later %d", early, late)
			if late > 2*early {
				t.Errorf("a row costs %d pages, and after %d others %d", early, rows, late)
			}
		})
	}
}

// values are those of a key's columns.
func values(g keyed.Rule) string {
	v := keyValues(g)
	if v[3] == nil {
		return fmt.Sprintf("'%s', %d, 0, NULL, NULL", v[0], v[1])
	}
	return fmt.Sprintf("'%s', %d, 0, %v, %d", v[0], v[1], v[3], v[4])
}
