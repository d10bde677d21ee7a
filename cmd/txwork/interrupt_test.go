package main

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A command that is interrupted while it waits for the database reports the interruption, not the driver's error.
func TestAnInterruptedCommandSaysSo(t *testing.T) {
	c := newMigratedCLI(t)
	tables := value[string](c, "SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables WHERE "+
		"schemaname = '{schema}'")
	for _, line := range []string{
		"stats", "list outbox --status failed", "show outbox 0190a000-0000-7000-8000-000000000001",
		"redrive outbox --all-failed --yes", "delete outbox 0190a000-0000-7000-8000-000000000001",
		"cancel outbox 0190a000-0000-7000-8000-000000000001", "reap", "purge outbox --done-older-than 1h --yes",
		"migrate up", "migrate status", "migrate validate",
		"outbox send --topic t", "outbox unblock 0190a000-0000-7000-8000-000000000001", "timers list",
		"timers cancel k", "schedules list", "jobs pause q", "jobs queues",
		"outbox pause t", "inbox topics",
	} {
		t.Run(line, func(t *testing.T) {
			c := c.in(t)
			holder, err := c.db.Pool.Begin(t.Context())
			must(t, err)
			defer holder.Rollback(context.Background())
			if _, err := holder.Exec(t.Context(), "LOCK TABLE "+tables); err != nil {
				t.Fatal(err)
			}
			r := c.interrupted(holder, strings.Fields(line)...).exits(exitInterrupted).says("interrupted")
			if strings.Contains(r.stderr, "cancel") {
				t.Errorf("stderr is %s", r.stderr)
			}
		})
	}
}

// waitsFor tells whether a session waits for a lock of the transaction.
func (c *cli) waitsFor(holder pgx.Tx) bool {
	return value[bool](c, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))",
		holder.Conn().PgConn().PID())
}

// interrupted runs a command, interrupts it while it waits for a lock of the transaction, and returns its result.
func (c *cli) interrupted(holder pgx.Tx, args ...string) result {
	c.t.Helper()
	ctx, interrupt := context.WithCancelCause(c.t.Context())
	defer interrupt(nil)
	done := make(chan result, 1)
	go func() { done <- c.runWith(ctx, strings.NewReader("{}\n"), args...) }()
	eventually(c.t, "the command waits", func() bool {
		select {
		case r := <-done:
			c.t.Fatalf("it has ended: exit code %d, %s", r.code, r.stderr)
		default:
		}
		return c.waitsFor(holder)
	})
	interrupt(errInterrupted)
	return <-done
}
