package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// version is the version of the extension that prepare creates.
const version = "3.5"

const (
	queue    = "bench"
	consumer = "bench"
)

func prepare(ctx context.Context, c config) error {
	p, err := c.profile()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, c.DatabaseURL)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pgq VERSION '"+version+"'"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pgq.create_queue($1)", queue); err != nil {
		return err
	}
	for name, value := range p.settings {
		if _, err := conn.Exec(ctx, "SELECT pgq.set_queue_config($1, $2, $3)", queue, name, value); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "SELECT pgq.register_consumer($1, $2)", queue, consumer)
	return err
}

func hangUp(conn *pgx.Conn) { _ = conn.Close(context.Background()) } // an error of Close does not matter

// insertMany writes events in one transaction.
func insertMany(ctx context.Context, conn *pgx.Conn, payloads []string) error {
	_, err := conn.Exec(ctx, "SELECT count(pgq.insert_event($1, 'job', p)) FROM unnest($2::text[]) p", queue, payloads)
	return err
}

func insertOne(ctx context.Context, conn *pgx.Conn, payload string) error {
	_, err := conn.Exec(ctx, "SELECT pgq.insert_event($1, 'job', $2)", queue, payload)
	return err
}

func tick(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SELECT pgq.ticker()")
	return err
}

// nextBatch acknowledges the batch done, unless it is nil, and begins the next one in the same transaction. It returns
// nil if there is none yet.
func nextBatch(ctx context.Context, conn *pgx.Conn, done *int64) (next *int64, err error) {
	batch := &pgx.Batch{} // one transaction and round trip
	if done != nil {
		batch.Queue("SELECT pgq.finish_batch($1)", *done)
	}
	batch.Queue("SELECT pgq.next_batch($1, $2)", queue, consumer).QueryRow(func(row pgx.Row) error {
		return row.Scan(&next)
	})
	return next, conn.SendBatch(ctx, batch).Close()
}

// events calls handle with the payload of each event of a batch.
func events(ctx context.Context, conn *pgx.Conn, batch int64, handle func(payload string)) error {
	rows, err := conn.Query(ctx, "SELECT ev_data FROM pgq.get_batch_events($1)", batch)
	if err != nil {
		return err
	}
	var payload string
	_, err = pgx.ForEachRow(rows, []any{&payload}, func() error {
		handle(payload)
		return nil
	})
	return err
}
