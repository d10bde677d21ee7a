package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A fullQueue is a server whose notification queue is full, because a session that listens stays in a transaction.
type fullQueue struct {
	*testing.T
	*localpg.Server
	deaf, other *pgx.Conn
}

func newFullQueue(t *testing.T) *fullQueue {
	t.Helper()
	s, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	q := &fullQueue{T: t, Server: s}
	q.other = q.connect()
	var version int
	err = q.other.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version)
	if err != nil {
		t.Fatal(err)
	}
	if version < 170000 {
		t.Skip("before PostgreSQL 17 the queue has 8 GB")
	}
	q.exec(q.other, "ALTER SYSTEM SET max_notify_queue_pages = 64")
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.other, q.deaf = q.connect(), q.connect()
	for _, sql := range []string{"LISTEN x", "BEGIN", "SELECT 1"} {
		q.exec(q.deaf, sql)
	}
	for !q.isFull() {
	}
	return q
}

func (q *fullQueue) connect() *pgx.Conn {
	q.Helper()
	conn, err := pgx.Connect(q.Context(), q.URL())
	if err != nil {
		q.Fatal(err)
	}
	q.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (q *fullQueue) exec(conn *pgx.Conn, sql string) {
	q.Helper()
	if _, err := conn.Exec(q.Context(), sql); err != nil {
		q.Fatal(err)
	}
}

// isFull fills a page of the queue, or reports that there is none left.
func (q *fullQueue) isFull() bool {
	q.Helper()
	_, err := q.other.Exec(q.Context(), "SELECT pg_notify('x', repeat('a', 7900))")
	var refused *pgconn.PgError
	if err != nil && (!errors.As(err, &refused) || refused.Code != "54000") {
		q.Fatal(err)
	}
	return err != nil
}

// While the queue of notifications is full, which a listener of any application can bring about, work is found by
// polling, and nothing fails: not what writes messages, nor what delivers them.
func TestAFullNotificationQueue(t *testing.T) {
	t.Parallel()
	q := newFullQueue(t)
	polls := workqueue.WorkerOptions{PollInterval: 100 * time.Millisecond}
	for name, storage := range map[string]outbox.Storage{"rows": outbox.Rows, "log": outbox.Log} {
		t.Run(name, func(t *testing.T) {
			f := newOutboxIn(t, pgschema.New(t, q.URL()), options(func(o *outbox.Options) {
				o.Storage = storage
				if o.Retry = (workqueue.Retry{}); storage == outbox.Rows {
					o.Retry = workqueue.Retry{Growth: workqueue.Constant, Base: time.Second, Cap: time.Second}
				}
			}))
			const all = 4
			delivered := make(chan string, 2*all)
			register := func(r *outbox.Relay) {
				r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
					if m.Attempt == 1 {
						return errors.New("not yet")
					}
					delivered <- string(m.Payload)
					return nil
				})
			}
			if storage == outbox.Log {
				f.table = f.DB.Schema + ".outbox_log"
				f.subscribe("s", 1)
				f.subscriber("s", polls, register)
			} else {
				f.relay(polls, register)
			}
			for n := range all {
				f.enqueue(outbox.Message{Topic: "t", Key: []string{"", "k"}[n%2], Payload: []byte(fmt.Sprint(n)),
					ScheduledAt: time.Now().Add(time.Duration(n/2) * time.Second)})
			}
			for range all {
				receive(t, delivered)
			}
			if !q.isFull() {
				t.Error("the queue is not full")
			}
		})
	}
}
