package model_test

import (
	"context"
	"math"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txwork/txwork/workqueue"
)

// Check compares the table with the model after every step.
func (m *machine) Check(t *rapid.T) {
	stored := m.stored(t)
	for _, r := range m.rows {
		s, ok := stored[r.id]
		if !ok {
			t.Fatalf("the table lacks %+v", *r)
		}
		if s != *r {
			t.Fatalf("at hour %d\nthe table has %+v\nthe model has %+v", m.now, s, *r)
		}
	}
	if len(stored) != len(m.rows) {
		t.Fatalf("the table has %d rows, the model %d", len(stored), len(m.rows))
	}
	m.checkStats(t)
	m.checkNextWake(t)
}

func (m *machine) checkStats(t *rapid.T) {
	got, err := m.real.On(m.db.Pool).Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got.OldestReady = got.OldestReady.Round(time.Hour)
	want := workqueue.Stats{}
	for _, r := range m.rows {
		switch {
		case r.ready(m.now):
			want.Ready++
			want.OldestReady = max(want.OldestReady, time.Duration(m.now-r.due)*time.Hour)
		case r.status == workqueue.Ready:
			want.Scheduled++
		case r.status == workqueue.InProgress:
			want.InProgress++
		case r.status == workqueue.Failed && r.cancelled:
			want.Cancelled++
		case r.status == workqueue.Failed:
			want.Failed++
		}
		if r.expired(m.now) {
			want.Expired++
		}
	}
	if got != want {
		t.Fatalf("stats: got %+v, want %+v", got, want)
	}
}

func (m *machine) checkNextWake(t *rapid.T) {
	wake, err := m.real.On(m.db.Pool).NextWakeAt(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := hours(math.MaxInt)
	for _, r := range m.rows {
		switch r.status {
		case workqueue.Ready:
			want = min(want, r.due)
		case workqueue.InProgress:
			want = min(want, r.lockedTo)
		}
	}
	if wake == nil != (want == math.MaxInt) || wake != nil && hours(wake.In.Round(time.Hour)/time.Hour) != want-m.now {
		t.Fatalf("next wake: got %+v, want hour %d at hour %d", wake, want, m.now)
	}
}

// stored returns the table's rows in the terms of the model, with times as hours of the game.
func (m *machine) stored(t *rapid.T) map[uuid.UUID]row {
	query := "SELECT coalesce((headers ->> 'txwork-lost-alone')::int, 0), " +
		"coalesce((headers ->> 'txwork-lost-together')::int, 0), " +
		"coalesce(headers ->> 'txwork-lost-beside', '00000000-0000-0000-0000-000000000000')::uuid, " +
		"id, coalesce(key, ''), lane, status, attempts, max_attempts, coalesce((retry ->> 'base_us')::bigint, 0) / 3600000000, coalesce(owner_token, '00000000-0000-0000-0000-000000000000'), " +
		"cancelled_at IS NOT NULL, coalesce(last_error, ''), " + since("due_at") + ", " + since("locked_until") + ", " +
		since("completed_at") + ", " + since("failed_at") +
		" FROM " + m.real.Name()
	rows, err := m.db.Pool.Query(context.Background(), query)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, m.scan)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[uuid.UUID]row{}
	for _, r := range list {
		byID[r.id] = r
	}
	return byID
}

// since is SQL for the number of hours from now to a time, or NULL.
func since(column string) string {
	return "round(extract(epoch FROM " + column + " - clock_timestamp()) / 3600)::int"
}

func (m *machine) scan(rows pgx.CollectableRow) (r row, err error) {
	var due, locked, completed, failed *int
	err = rows.Scan(&r.alone, &r.together, &r.noted, &r.id, &r.key, &r.lane, &r.status, &r.attempts, &r.max,
		&r.backoff, &r.token, &r.cancelled, &r.lastError, &due, &locked, &completed, &failed)
	r.due, r.lockedTo, r.completed, r.failed = m.hour(due), m.hour(locked), m.hour(completed), m.hour(failed)
	r.lastError = expiredAt.ReplaceAllString(r.lastError, "lease expired in")
	return r, err
}

// expiredAt is the part of a reaped row's error that names the time.
var expiredAt = regexp.MustCompile(`^lease expired at \S+ in`)

func (m *machine) hour(fromNow *int) hours {
	if fromNow == nil {
		return never
	}
	return m.now + hours(*fromNow)
}
