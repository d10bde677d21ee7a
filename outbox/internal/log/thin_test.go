package log_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Ticks that are close together are thinned out, the more the older they are. Batches stay small, and no subscription
// misses a message.
func TestTicksAreThinnedOut(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = at - interval '3 days'")
	// Each has four ticks a quarter of a second apart, from the beginning of a minute on.
	at := map[string]string{"days": "2 days", "day": "25 hours", "hours": "3 hours", "now": "0"}
	for _, when := range []string{"days", "day", "hours", "now"} {
		for i := range 8 {
			f.append(f.Pool, fmt.Sprint(when, i))
			n, _ := f.tick()
			f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = CASE WHEN $3 = '0' THEN at ELSE "+
				"date_trunc('minute', now()) - $3::interval END + $2 * interval '250 ms' WHERE n = $1", n, i, at[when])
		}
	}
	// ages are how many ticks are left of each age.
	ages := func() []int {
		rows, err := f.Pool.Query(f.Context(), "SELECT count(*) FROM "+f.name+"_tick WHERE n > 1 "+
			"GROUP BY date_trunc('hour', now() - at + interval '30 minutes') ORDER BY min(n)")
		f.ok(err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[int])
		f.ok(err)
		return all
	}
	thin := func() int { return value[int](f, f.Pool, "SELECT "+f.name+"_thin()") }
	before := ages()
	if n := thin(); n != 7+7+6 {
		t.Errorf("%d of %v ticks are thinned out, leaving %v", n, before, ages())
	}
	if got, want := ages(), []int{1, 1, 2, 8}; !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if n := thin(); n != 0 {
		t.Errorf("%d more are thinned out", n)
	}
	if n := len(f.drain("s", 3)); n != 4*8 {
		t.Errorf("%d messages are read, want %d", n, 4*8)
	}
	// Ticks of one second between which there is a batch are left.
	for range 3 {
		f.bulk(f.Pool, "m", 5000)
		f.tick()
	}
	f.exec(f.Pool, "UPDATE "+f.name+"_tick SET at = date_trunc('minute', now()) - interval '4 hours'")
	last := value[int64](f, f.Pool, "SELECT max(n) FROM "+f.name+"_tick")
	thin()
	if n := value[int](f, f.Pool, "SELECT count(*) FROM "+f.name+"_tick WHERE n > $1 - 3", last); n != 3 {
		t.Errorf("%d ticks are left of the last 3, between each of which there is a batch", n)
	}
}
