package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Listen listens on a channel with its own session until the test ends. The returned function waits for the next
// notification.
func Listen(t testing.TB, pool *pgxpool.Pool, channel string) (next func() *pgconn.Notification) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	listener := conn.Hijack() // the connection leaves the pool, so that no later test receives notifications
	t.Cleanup(func() { listener.Close(context.WithoutCancel(t.Context())) })
	if _, err := listener.Exec(t.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		t.Fatalf("listening: %v", err)
	}
	return func() *pgconn.Notification {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), Patience)
		defer cancel()
		n, err := listener.WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("listening: %v", err)
		}
		return n
	}
}
