package security_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Rows that a producer writes by hand must not make computations fail: one such row would make the settles, sweeps and
// reaps of all others fail.
func TestAProducerWritesNothingThatCannotBeComputed(t *testing.T) {
	f := newFixture(t)
	producer := f.as("producer")
	f.in(producer, f.setTimers)
	f.exec(f.db.Pool, "UPDATE timers SET status = 1, owner_token = gen_random_uuid(), locked_until = now(), attempts "+
		"= 1 WHERE key = 't1'")
	f.refuses(producer, outOfRange,
		`INSERT INTO outbox (topic, payload, retry) VALUES ('t', '', '{"growth": "exponential", "base_us": 1e307, "cap_us": 1}')`)
	for _, statement := range []string{
		"INSERT INTO outbox (topic, payload, concurrency_key, key_limit, key_policy, key_rate, key_burst) VALUES ('t', " +
			"'', 'k', 1, 0, 1e308, 1)",
		"INSERT INTO outbox_join (id, retention) VALUES (gen_random_uuid(), '170000000 years')",
		"INSERT INTO outbox_join (id, retention) VALUES (gen_random_uuid(), '-1 day')",
		"INSERT INTO outbox_join (id, retention, deadline) VALUES (gen_random_uuid(), '1 day', '-infinity')",
		"INSERT INTO outbox_join_note (at, join_id) VALUES ('infinity', gen_random_uuid())",
		"INSERT INTO outbox_join_note (at, join_id) VALUES ('-infinity', gen_random_uuid())",
		"UPDATE timers SET rearm_at = now(), rearm_topic = 't', rearm_payload = '', rearm_max_attempts = 0 WHERE key = 't1'",
		"UPDATE timers SET status = 2, completed_at = 'infinity' WHERE key = 't2'",
		"UPDATE timers SET cancelled_at = '-infinity'",
		"INSERT INTO alarms (owner_did, user_id, kind, next_fire_at) VALUES ('', '', 'once', '-infinity')",
		"INSERT INTO alarms (owner_did, user_id, kind, next_fire_at) VALUES ('', '', 'once', '4713-02-01 BC')",
		"INSERT INTO alarms (owner_did, user_id, kind, next_fire_at, fire_at) VALUES ('', '', 'once', now(), " +
			"'infinity')",
	} {
		f.refuses(producer, againstCheck, statement)
	}
	for _, statement := range []string{
		"INSERT INTO outbox_join (id, retention, created_at) VALUES (gen_random_uuid(), '1 day', '-infinity')",
		"INSERT INTO outbox_join (id, retention, expected, succeeded) VALUES (gen_random_uuid(), '1 day', " +
			"2147483647, 2147483647)",
		"INSERT INTO outbox_join (id, retention, status, completed_at) VALUES (gen_random_uuid(), '1 day', 1, now())",
		"INSERT INTO outbox_join_member (member_id, join_id, late) VALUES (gen_random_uuid(), gen_random_uuid(), 1)",
		"INSERT INTO alarms (owner_did, user_id, kind, next_fire_at, status) VALUES ('', '', 'once', now(), 'fired')",
		"INSERT INTO alarms (owner_did, user_id, kind, next_fire_at, created_at) VALUES ('', '', 'once', now(), " +
			"'infinity')",
	} {
		f.refuses(producer, forbidden, statement)
	}
}

// A producer may add more steps to a join by hand than the join expects. They can still be settled, also by the reaper.
func TestMoreStepsThanExpectedFailNoSettle(t *testing.T) {
	f := newFixture(t)
	ended, short := uuid.New(), uuid.New()
	f.exec(f.as("producer"), "INSERT INTO outbox_join (id, retention) VALUES ($1, '1 day')", short)
	f.exec(f.db.Pool, "INSERT INTO outbox_join (id, retention, status, completed_at) VALUES ($1, '1 day', 1, now())",
		ended)
	for _, id := range []uuid.UUID{ended, short} {
		f.exec(f.as("producer"), `WITH steps AS (
				INSERT INTO outbox (topic, payload, joined, max_attempts) SELECT 't', '', true, 1 FROM generate_series(1, 2) RETURNING id
			) INSERT INTO outbox_join_member (member_id, join_id) SELECT id, $1 FROM steps`, id)
	}
	worker, owner := f.as("worker"), workqueue.NewOwnerToken()
	q := f.outbox.Table().On(worker)
	rows, err := q.Claim(t.Context(), owner, time.Minute, 10)
	if err != nil || len(rows) != 4 {
		t.Fatalf("claimed %d rows: %v", len(rows), err)
	}
	if _, err := q.Ack(t.Context(), owner, []uuid.UUID{rows[0].ID, rows[2].ID}); err != nil {
		t.Error(err)
	}
	f.exec(f.db.Pool, "UPDATE outbox SET locked_until = now() - interval '1 second' WHERE status = 1")
	if reaped, err := q.ReapExpired(t.Context(), 10); err != nil || reaped.Failed != 2 {
		t.Errorf("reaped %+v, %v", reaped, err)
	}
	if _, err := q.Fold(t.Context()); err != nil {
		t.Error(err)
	}
	if counted := ask[int](f, "SELECT sum(succeeded + failed + late) FROM outbox_join"); counted != 4 {
		t.Errorf("%d steps were counted, want 4", counted)
	}
	if _, err := reaper.RunOnce(t.Context(), worker, f.coreTables(), reaper.Options{Schema: f.db.Schema,
		Logger: quiet.Logger}); err != nil {
		t.Error(err)
	}
}

// A row that is due beyond the range of a duration is waited for, without polling in a busy loop.
func TestADueTimeBeyondDurationsIsFarAway(t *testing.T) {
	f := newFixture(t)
	f.in(f.as("producer"), func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.timers.Set(ctx, tx, timers.Timer{Key: "k", Topic: "t", ScheduledAt: time.Date(2500, 1, 1, 0, 0, 0,
			0, time.UTC)})
		return err
	})
	if wake, err := f.timers.Table().On(f.db.Pool).NextWakeAt(t.Context()); err != nil || wake == nil ||
		wake.In < 100*365*24*time.Hour {
		t.Errorf("wake %+v, %v", wake, err)
	}
}
