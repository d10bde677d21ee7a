package costs_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// fetched are the fetches among the statements.
func fetched(all []executed) (list []executed) {
	for _, e := range all {
		if strings.Contains(e.Text, "_fetch(") {
			list = append(list, e)
		}
	}
	return list
}

// fetchTables are the tables whose fetches are measured, with the lanes of a fetch.
var fetchTables = map[string]struct {
	change func(*workqueue.Spec)
	lanes  string
}{
	"no lanes": {func(*workqueue.Spec) {}, ""},
	"topics": {func(s *workqueue.Spec) {
		s.Columns = []workqueue.Column{{Name: "topic", Type: "text", NotNull: true}}
		s.Topics.Columns = []string{"topic"}
	}, ""},
	"eight lanes": {func(s *workqueue.Spec) {
		s.Columns = []workqueue.Column{{Name: "level", Type: "smallint", NotNull: true}}
		s.Lanes = []string{"level"}
	}, ", '{1,2,3,4,5,6,7,8}'"},
}

// fetchTable makes such a table.
func (l *lab) fetchTable(name string) *rowTable {
	l.Helper()
	spec := workqueue.Spec{Schema: "public", Table: "rows"}
	fetchTables[name].change(&spec)
	up, _, err := spec.DDL()
	l.ok(err)
	l.exec(up)
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	l.ok(err)
	return &rowTable{l, table, table.Name()}
}

// fill inserts n rows, whose lanes and topics are all in use.
func (q *rowTable) fill(n int) {
	q.Helper()
	columns, values := "", ""
	for _, c := range q.table.Spec().Columns {
		columns, values = ", "+c.Name, ", 1 + i % 8"
	}
	q.exec("INSERT INTO "+q.name+" (due_at"+columns+") SELECT clock_timestamp()"+values+
		" FROM generate_series(1, $1::int) AS i", n)
}

// fetch fetches n rows in a watched session, and returns the next cursor.
func (q *rowTable) fetch(pool *pgxpool.Pool, lanes string, n int, cursor *string) *string {
	q.Helper()
	var rows int
	q.ok(pool.QueryRow(q.Context(), "SELECT count(id), max(cursor) FROM "+q.name+"_fetch($1, '1 hour', $2"+lanes+
		", cursor => $3)", workqueue.NewOwnerToken(), n, cursor).Scan(&rows, &cursor))
	if rows != n {
		q.Fatalf("fetched %d rows, want %d", rows, n)
	}
	return cursor
}

// TestAFetchReadsNothingBehindItsCursor is TestNothingBehindTheCursorIsRead for the SQL function.
func TestAFetchReadsNothingBehindItsCursor(t *testing.T) {
	for name, table := range fetchTables {
		t.Run(name, func(t *testing.T) {
			const (
				skip   = 10 // the first look up what no session has cached
				window = 50
				total  = fetchedRows / claimLimit
			)
			q := newLab(t).fetchTable(name)
			q.fill(claimLimit)
			q.exec("VACUUM ANALYZE " + q.name)
			defer q.holdSnapshot()()
			pool := q.watched()
			var cursor *string
			for range total {
				cursor = q.fetch(pool, table.lanes, claimLimit, cursor)
				q.fill(claimLimit)
			}
			pool.Close()
			all := fetched(q.seen.list(q.lab))
			early, late := median(all[skip:skip+window]), median(all[len(all)-window:])
			t.Logf("a fetch of %d rows reads %d pages, and %d behind %d rows", claimLimit, early, late, fetchedRows)
			if float64(late) > cursorRatio*float64(early) {
				t.Errorf("a fetch of %d rows reads %d pages, and %d behind %d rows, want at most %v times that", claimLimit,
					early, late, fetchedRows, cursorRatio)
			}
			sum := 0
			for _, e := range all[skip:] {
				sum += e.buffers()
			}
			if mean := float64(sum) / float64(len(all)-skip); mean > sweptRatio*float64(early) {
				t.Errorf("with its sweeps, a fetch reads %.0f pages, want at most %v times %d", mean, sweptRatio, early)
			} else {
				t.Logf("with its sweeps, %.0f", mean)
			}
		})
	}
}

// TestAFetchCostsWhatAClaimCosts compares the function with the statement of Go's workers.
func TestAFetchCostsWhatAClaimCosts(t *testing.T) {
	for name, table := range fetchTables {
		for _, n := range []int{1, 20, 1000} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				const calls, warm = 12, 2
				measure := func(claim func(q *rowTable, pool *pgxpool.Pool)) (pages, wal float64) {
					q := newLab(t).fetchTable(name)
					q.fill(8 * (calls + warm) * n) // of one lane in eight, if there are lanes
					q.exec("VACUUM ANALYZE " + q.name)
					pool := q.watched()
					defer pool.Close()
					for range warm {
						claim(q, pool)
					}
					q.seen.forget()
					start := q.wal()
					for range calls {
						claim(q, pool)
					}
					wal = float64(q.wal() - start)
					all := q.seen.list(q.lab)
					for _, e := range append(claims(all), fetched(all)...) {
						pages += float64(e.buffers())
					}
					return pages / calls, wal / calls
				}
				goPages, goWAL := measure(func(q *rowTable, pool *pgxpool.Pool) {
					var lanes []any
					if table.lanes != "" {
						lanes = []any{1}
					}
					rows, err := q.table.On(pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Hour, n, lanes...)
					q.ok(err)
					if len(rows) != n {
						q.Fatalf("claimed %d rows, want %d", len(rows), n)
					}
				})
				pages, wal := measure(func(q *rowTable, pool *pgxpool.Pool) {
					lanes := table.lanes
					if lanes != "" {
						lanes = ", '{1}'"
					}
					q.fetch(pool, lanes, n, nil)
				})
				t.Logf("%d rows: a claim reads %.0f pages and writes %.0f bytes of log, a fetch %.0f and %.0f", n, goPages,
					goWAL, pages, wal)
				if math.Max(pages/goPages, wal/goWAL) > fetchRatio {
					t.Errorf("a fetch costs more than %v times a claim", fetchRatio)
				}
			})
		}
	}
}
