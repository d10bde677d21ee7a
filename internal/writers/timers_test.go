package writers

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// timers_cancel says of each key what became of its timer, and does what Go's Cancel does.
func TestTimersAreCancelledByKey(t *testing.T) {
	f := newFixture(t)
	f.one("txwork.timers_set('waits', 't', now() + interval '1 hour')")
	f.one("txwork.timers_set('fires', 't', now())")
	f.one("txwork.timers_set('ended', 't', now() + interval '1 hour')")
	_, err := f.db.Pool.Exec(t.Context(), f.in("UPDATE txwork.timers SET status = 2, completed_at = now() "+
		"WHERE key = 'ended'; UPDATE txwork.timers SET status = 1, attempts = 1, owner_token = gen_random_uuid(), "+
		"locked_until = now() + interval '1 hour' WHERE key = 'fires'"), pgx.QueryExecModeSimpleProtocol)
	f.ok(err)
	cancel := func() []string {
		rows, err := f.db.Pool.Query(t.Context(), f.in("SELECT key || ' ' || result FROM "+
			"txwork.timers_cancel('{none,waits,fires,ended,waits}')"))
		f.ok(err)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.ok(err)
		return list
	}
	want := []string{"none gone", "waits cancelled", "fires cancelling", "ended ended", "waits cancelled"}
	if got := cancel(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ask[string](f, "SELECT string_agg(key || ' ' || status || ' ' || last_error, ', ' ORDER BY key) "+
		"FROM txwork.timers WHERE cancelled_at IS NOT NULL"); got != "fires 1 cancelled: by its key, waits 3 cancelled: by its key" {
		t.Errorf("the timers are %s", got)
	}
	// What was set during a firing is dropped, and a firing that was cancelled before is still told.
	f.one("txwork.timers_set('fires', 't', now() + interval '1 hour')")
	want[1], want[4] = "waits ended", "waits ended"
	if got := cancel(); !slices.Equal(got, want) {
		t.Errorf("again: got %q, want %q", got, want)
	}
	if n := ask[int](f, "SELECT count(*) FROM txwork.timers WHERE rearm_at IS NOT NULL"); n != 0 {
		t.Errorf("%d timers will fire again", n)
	}
	for _, keys := range []string{"NULL", "'{a,NULL}'", "array_fill('a'::text, ARRAY[10001])"} {
		_, err := f.db.Pool.Exec(t.Context(), f.in("SELECT txwork.timers_cancel("+keys+")"))
		if postgres.State(err) != "22023" {
			t.Errorf("keys %s: %v", keys, err)
		}
	}
}

// timers_get returns what Go's Get returns.
func TestATimerIsReadByKey(t *testing.T) {
	f := newFixture(t)
	clock, err := timers.Open(timers.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	f.one(`txwork.timers_set('k', 't', '2040-01-02T03:04:05Z', '{"a": 1}', headers => '{"h": "v"}', max_attempts => 3)`)
	var got timers.Info
	f.ok(f.db.Pool.QueryRow(t.Context(), f.in(`SELECT id, key, topic, payload, scheduled_at, due_at, generation, status,
		attempts, max_attempts, last_error, created_at FROM txwork.timers_get('k')`)).Scan(&got.ID, &got.Key, &got.Topic,
		&got.Payload, &got.ScheduledAt, &got.DueAt, &got.Generation, &got.Status, &got.Attempts, &got.MaxAttempts,
		&got.LastError, &got.CreatedAt))
	var want timers.Info
	f.ok(workqueue.InTx(t.Context(), f.db.Pool, func(tx workqueue.Tx) (err error) {
		want, err = clock.Get(context.WithoutCancel(t.Context()), tx, "k")
		return err
	}))
	if got.ID != want.ID || got.Key != want.Key || string(got.Payload) != string(want.Payload) ||
		!got.ScheduledAt.Equal(want.ScheduledAt) || !got.DueAt.Equal(want.DueAt) ||
		got.MaxAttempts != want.MaxAttempts ||
		got.Generation != want.Generation || !got.CreatedAt.Equal(want.CreatedAt) || got.Status != want.Status {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if h := ask[string](f, "SELECT headers ->> 'h' FROM txwork.timers_get('k')"); h != "v" {
		t.Errorf("the header is %q", h)
	}
	if n := ask[int](f, "SELECT count(*) FROM txwork.timers_get('none')"); n != 0 {
		t.Errorf("a timer that is not there has %d rows", n)
	}
	if _, err := f.db.Pool.Exec(t.Context(), f.in("SELECT txwork.timers_get(NULL)")); postgres.State(err) != "22023" {
		t.Errorf("NULL as a key: %v", err)
	}
}
