package main

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// newShop is a cli on its own server with the tables in the default schema, so that recorded output contains no foreign
// sessions.
func newShop(t *testing.T) *cli {
	t.Helper()
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{Durable: true})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	return newShopOn(t, server)
}

func newShopOn(t *testing.T, server *localpg.Server) *cli {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server.URL())
	must(t, err)
	t.Cleanup(pool.Close)
	m, err := migrations.New(pool, migrations.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	_, err = m.Up(t.Context())
	must(t, err)
	box, err := outbox.Open(outbox.Options{Ordering: outbox.PerKey})
	must(t, err)
	return &cli{t: t, db: &pgtest.DB{Pool: pool, Schema: workqueue.DefaultSchema, URL: server.URL()}, url: server.URL(),
		outbox: box}
}

// connect opens sessions as a program of the shop would.
func (c *cli) connect(application string, sessions int) {
	c.t.Helper()
	for range sessions {
		config, err := pgx.ParseConfig(c.url)
		must(c.t, err)
		config.RuntimeParams["application_name"] = application
		conn, err := pgx.ConnectConfig(c.t.Context(), config)
		must(c.t, err)
		c.t.Cleanup(func() { conn.Close(c.t.Context()) })
	}
}

// trouble creates the problems that an operator on call finds: a key that is blocked by a dead letter, a process that
// died with leases, a paused queue, and a provider that refuses cards.
func (c *cli) trouble() (blocker uuid.UUID) {
	c.t.Helper()
	order := func(topic, key string) outbox.Message {
		return outbox.Message{Topic: topic, Key: key, Payload: []byte("{}")}
	}
	shipped := c.enqueue(order("order.shipped", "17"), order("order.shipped", "17"), order("order.shipped", "17"))
	c.fail("the carrier refused the parcel: no such address", shipped[0])
	c.fold() // on a slow machine the note would be old when it is looked at
	c.enqueue(slices.Repeat([]outbox.Message{order("order.placed", "")}, 5)...)
	_, err := c.queue().Claim(c.t.Context(), workqueue.NewOwnerToken(), time.Minute, 2)
	must(c.t, err)
	c.exec("UPDATE {schema}.outbox SET locked_until = now() - interval '150 seconds' WHERE status = 1")
	c.exec("UPDATE {schema}.outbox SET due_at = now() - interval '40 minutes' WHERE status < 2 AND NOT waiting")
	c.exec("UPDATE {schema}.outbox SET failed_at = now() - interval '35 minutes', completed_at = now() - interval " +
		"'35 minutes' WHERE status = 3")
	c.exec("UPDATE {schema}.outbox SET created_at = now() - interval '38 minutes' WHERE waiting")

	mail := slices.Repeat([]jobs.Insert{{Queue: "mail"}}, 3)
	c.greet(append(mail, jobs.Insert{Queue: "mail", Delay: time.Hour})...)
	c.exec("UPDATE {schema}.jobs SET due_at = now() - interval '12 minutes' WHERE due_at <= now()")
	c.run("jobs", "pause", "mail").ok()
	c.exec("UPDATE {schema}.jobs_queue SET changed_at = now() - interval '12 minutes'")
	charges := c.greet(slices.Repeat([]jobs.Insert{{Queue: "charges"}}, 6)...)
	client, err := jobs.Open(jobs.Options{Schema: c.db.Schema})
	must(c.t, err)
	q, owner := client.Table().On(c.db.Pool), workqueue.NewOwnerToken()
	_, err = q.Claim(c.t.Context(), owner, time.Minute, 10, "charges", int16(jobs.Normal))
	must(c.t, err)
	for _, id := range charges {
		_, err = q.Fail(c.t.Context(), owner, []uuid.UUID{id}, "card "+id.String()+" is declined: code 51")
		must(c.t, err)
	}
	c.exec("UPDATE {schema}.jobs SET failed_at = now() - interval '4 minutes', completed_at = now() - interval '4 " +
		"minutes' WHERE status = 3")
	return shipped[0]
}
