package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// listenLimit is how long a notification may take that comes in milliseconds.
const listenLimit = 30 * time.Second

// Listen listens on a channel with a session of its own until the test ends. The function that it returns waits for the
// next notification.
func Listen(t testing.TB, pool *pgxpool.Pool, channel string) (next func() *pgconn.Notification) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	listener := conn.Hijack() // no test that follows hears of what comes later
	t.Cleanup(func() { listener.Close(context.WithoutCancel(t.Context())) })
	if _, err := listener.Exec(t.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		t.Fatalf("listening: %v", err)
	}
	return func() *pgconn.Notification {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), listenLimit)
		defer cancel()
		n, err := listener.WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("listening: %v", err)
		}
		return n
	}
}
