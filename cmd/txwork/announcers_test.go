package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// session opens a connection with an application name.
func (c *cli) session(name string) *pgx.Conn {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url+"&application_name="+name)
	must(c.t, err)
	c.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// notifies sends payloads, each in its own transaction.
func (c *cli) notifies(conn *pgx.Conn, payloads ...string) {
	c.t.Helper()
	for _, payload := range payloads {
		_, err := conn.Exec(c.t.Context(), "SELECT pg_notify($1, $2)", c.db.Schema+".outbox", payload)
		must(c.t, err)
	}
}

// The announcer of a table is recognised by its lock, and its notifications are counted separately from those of
// producers.
func TestStatsShowAnnouncers(t *testing.T) {
	c := newMigratedCLI(t)
	announcer, producer := c.session("announcer"), c.session("producer")
	_, err := announcer.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended($1, 0))", c.db.Schema+
		".outbox announcer")
	must(t, err)

	hear := func(name string, format ...string) result {
		watching := c.in(t)
		watching.url += "&application_name=" + c.db.Schema + name
		ctx, interrupt := context.WithCancelCause(t.Context())
		heard := make(chan result, 1)
		go func() {
			heard <- watching.runWith(ctx, nil, append([]string{"stats", "--announcers", "--for", "10m"}, format...)...)
		}()
		eventually(t, "it listens", func() bool {
			return value[bool](c, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '{schema}"+name+
				"' AND state = 'idle' AND query LIKE '%announcer%')")
		})
		c.notifies(announcer, "1", "2", "note:3")
		c.notifies(producer, "4", "note:5", "cancel", "upkeep")
		interrupt(errInterrupted)
		return (<-heard).ok()
	}

	h := decode[hearing](hear("_first", "--json"))
	byName := map[string]announcerState{}
	for _, s := range h.Tables {
		byName[strings.TrimPrefix(s.Table, c.db.Schema+".")] = s
	}
	got, asleep := byName["outbox"], byName["jobs"]
	if !got.Awake || got.PID != announcer.PgConn().PID() || got.Application != "announcer" || got.AwakeSeconds == nil ||
		got.Announcements != 3 || got.Notifications != 2 {
		t.Errorf("the outbox has %+v", got)
	}
	if asleep != (announcerState{Table: c.db.Schema + ".jobs"}) {
		t.Errorf("the table of jobs has %+v", asleep)
	}
	if h.Seconds <= 0 {
		t.Errorf("it listened for %v s", h.Seconds)
	}
	hear("_second", "outbox").prints("ANNOUNCEMENTS/S", fmt.Sprint(got.PID), "awake")

	c.run("stats", "--announcers", "--for", "0s").exits(exitUsage).says("--for is 0s")
	c.run("stats", "--for", "1s").exits(exitUsage).says("is for --announcers")
	c.run("stats", "jobs", "--announcers", "--for", "10ms").ok().prints(c.db.Schema+".jobs", "asleep")
}
