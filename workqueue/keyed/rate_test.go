package keyed_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
)

// A rate from one row in ten seconds to a thousand a second is met, with at most 5 % less, and never exceeded. The test
// tells the folds what time it is, so it does not depend on the speed of the machine. Each fold comes up to 100 ms
// after the note that asks for it, and further folds come in between, as with several processes.
func TestRatesAreMet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  float64
		burst int
	}{{0.1, 1}, {0.7, 1}, {5, 5}, {100, 10}, {1000, 100}, {0.1, 3}, {5, 1}, {20, 1}, {100, 1}, {1000, 1},
		{1000, 1000}}[:pgtest.Size(5, 11)] {
		t.Run(fmt.Sprintf("%v a second, burst %d", c.rate, c.burst), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			window := max(3, 20/c.rate) // seconds
			rows := c.burst + int(c.rate*window)
			r.exec(`INSERT INTO work (n, due_at, concurrency_key, key_limit, key_policy, key_rate, key_burst)
				SELECT i, now() - interval '1 hour' + i * interval '1 microsecond', 'k', $1, 0, $2, $3 FROM generate_series(1, $4::int) AS i`,
				math.MaxInt32, c.rate, c.burst, rows)
			r.exec("ANALYZE work")
			starts := r.spend(rows)
			for i, first := range starts {
				for j := i + 1; j < len(starts); j++ {
					if most := float64(c.burst) + c.rate*(starts[j]-first); float64(j-i+1) > most+0.01 {
						t.Fatalf("%d rows start within %v s, at most %v may", j-i+1, starts[j]-first, most)
					}
				}
			}
			took, needs := starts[len(starts)-1]-starts[0], float64(rows-c.burst)/c.rate
			t.Logf("%d rows beyond the burst in %.3f s of %.3f", rows-c.burst, took, needs)
			if took > needs/0.95 {
				t.Errorf("%d rows beyond the burst take %v s, want at most %v", rows-c.burst, took, needs/0.95)
			}
		})
	}
}

// spend releases all rows of the key and returns when they start, in seconds.
func (r *rig) spend(rows int) (starts []float64) {
	r.Helper()
	r.exec("DELETE FROM work_key_note")
	now := ask[time.Time](r, "SELECT now() + interval '1 day'") // no time that has to do with today's
	for starts = r.spendAt(now, nil); ; {
		var next *time.Time
		r.ok(r.pool.QueryRow(r.Context(),
			"WITH n AS (DELETE FROM work_key_note RETURNING at) SELECT min(at) FROM n").Scan(&next))
		if next == nil {
			break
		}
		starts = r.spendAt(now.Add(next.Sub(now)/2), starts)
		now = next.Add(time.Duration(rand.IntN(100)) * time.Millisecond)
		starts = r.spendAt(now, starts)
	}
	if len(starts) != rows {
		r.Fatalf("%d of %d rows are through, and nobody asks for a fold", len(starts), rows)
	}
	return starts
}

// spendAt runs a fold at a time, and appends the start times of the rows that it releases: their due times, or now if
// they are earlier.
func (r *rig) spendAt(now time.Time, starts []float64) []float64 {
	r.Helper()
	r.exec("SELECT work_key_fill('{k}', '{true}', '{0}', '{null}', '{null}', $1, '{}')", now)
	found, err := r.pool.Query(r.Context(), `SELECT extract(epoch FROM greatest(due_at, $1))::float8 FROM work
		WHERE NOT waiting AND n > $2 ORDER BY n`, now, len(starts))
	r.ok(err)
	more, err := pgx.CollectRows(found, pgx.RowTo[float64])
	r.ok(err)
	return append(starts, more...)
}

// Rows that are left before they start, some of them late, take nothing of the rate: as many of the others start as if
// they were alone, and never more than the burst and the rate have allowed by then.
func TestRatesAreMetByWhatStarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  float64
		burst int
	}{{20, 1}, {100, 10}, {1000, 1}, {5, 3}} {
		t.Run(fmt.Sprintf("%v a second, burst %d", c.rate, c.burst), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const late = 0.05 // seconds that a row may wait for its handler
			rows := c.burst + int(c.rate*max(2, 20/c.rate))
			r.exec(`INSERT INTO work (n, due_at, concurrency_key, key_limit, key_policy, key_rate, key_burst)
				SELECT i, now() - interval '1 hour' + i * interval '1 microsecond', 'k', $1, 0, $2, $3
				FROM generate_series(1, $4::int) AS i`, math.MaxInt32, c.rate, c.burst, 2*rows)
			r.exec("DELETE FROM work_key_note; ANALYZE work")
			begin := ask[time.Time](r, "SELECT now() + interval '1 day'")
			var starts []float64
			var left int
			for now, i := begin, 0; len(starts) < rows; i++ {
				if i > 10*rows {
					t.Fatalf("%d of %d rows have started after %d folds", len(starts), rows, i)
				}
				r.exec("DELETE FROM work_key_note")
				r.exec("SELECT work_key_fill('{k}', '{true}', '{0}', '{null}', ARRAY[$2::float8], $1, '{}')", now,
					float64(left)*math.Ceil(1e6/c.rate))
				left = 0
				now = now.Add(time.Duration(rand.Float64() * late * float64(time.Second)))
				// Of the rows that are due every second is left; the others start.
				for _, n := range r.column("DELETE FROM work WHERE NOT waiting AND due_at <= $1 RETURNING n", now) {
					if n%2 == 0 {
						left++
					} else {
						starts = append(starts, now.Sub(begin).Seconds())
					}
				}
			}
			for i, at := range starts {
				if most := float64(c.burst) + c.rate*at; float64(i+1) > most+0.01 {
					t.Fatalf("%d rows have started after %v s, at most %v may", i+1, at, most)
				}
			}
			took, needs := starts[len(starts)-1], float64(len(starts)-c.burst)/c.rate
			t.Logf("%d rows in %.3f s of %.3f", len(starts), took, needs)
			if took > needs/0.9+2*late {
				t.Errorf("%d rows take %v s, want at most %v", len(starts), took, needs/0.9+2*late)
			}
		})
	}
}

// column returns the numbers that a statement returns.
func (r *rig) column(sql string, args ...any) []int {
	r.Helper()
	found, err := r.pool.Query(r.Context(), sql, args...)
	r.ok(err)
	list, err := pgx.CollectRows(found, pgx.RowTo[int])
	r.ok(err)
	return list
}
