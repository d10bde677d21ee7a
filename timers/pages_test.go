package timers_test

import (
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Timers that have fired cost those nothing who look at what is alive.
func TestListsOfLiveTimersSkipThoseThatFired(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	f.exec("ALTER TABLE " + f.table + " DISABLE TRIGGER USER")
	f.exec(`INSERT INTO `+f.table+` (key, topic, payload, fire_at, generation, status, attempts, completed_at)
		SELECT 'k' || i, 't', '', now(), 1, 2, 1, now() FROM generate_series(1, $1::int) AS i`,
		pgtest.Size(20_000, 200_000))
	f.exec("ALTER TABLE " + f.table + " ENABLE TRIGGER USER")
	for _, key := range []string{"a", "k1/new", "z"} {
		f.set(timers.Timer{Key: key, Topic: "t", ScheduledAt: tomorrow})
	}
	f.exec("VACUUM ANALYZE " + f.table)
	for _, state := range []workqueue.State{workqueue.StateScheduled, workqueue.StateInProgress, workqueue.StateExpired,
		workqueue.StateFailed} {
		var keys int
		pages := pgtest.Pages(t, f.Pool, f.table, func() {
			f.inTx(func(tx workqueue.Tx) error {
				list, err := f.timers.List(t.Context(), tx, timers.Filter{State: []workqueue.State{state}})
				keys = len(list)
				return err
			})
		})
		t.Logf("list of %s: %d keys, %d pages", state, keys, pages)
		if want := map[workqueue.State]int{workqueue.StateScheduled: 3}[state]; keys != want || pages > 100 {
			t.Errorf("a list of those that are %s has %d keys, want %d, and reads %d pages", state, keys, want, pages)
		}
	}
}
