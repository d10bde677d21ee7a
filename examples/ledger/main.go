// Ledger applies events of accounts in the order in which they were committed. The order matters: interest is lower
// before a deposit than after it. So the statements agree with the accounts only if the order is kept, despite several
// writers, several relays and failures in between.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

const (
	accounts, writers, events = 10, 4, 200 // events is the number for each writer
	tables                    = `SET search_path = example_ledger;
		CREATE TABLE accounts (id text PRIMARY KEY, cents bigint NOT NULL, changes int NOT NULL);
		INSERT INTO accounts SELECT 'account-' || n, 100000, 0 FROM generate_series(0, 9) AS n;
		CREATE TABLE statements AS TABLE accounts; -- what the events say
		CREATE TABLE lines (position bigserial, account text, change int);
		RESET search_path`
)

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	if err := example.Fresh(ctx, pool, "example_ledger", tables); err != nil {
		return err
	}
	box, err := outbox.Open(outbox.Options{
		Schema:   "example_ledger",
		Ordering: outbox.PerKey, // messages with the same Key are delivered one at a time, in commit order
		// Block, the default, holds the later events of an account if one has failed for good. Other accounts continue.
		OnFailure: keyed.Block,
		Retry:     workqueue.Retry{Growth: workqueue.Constant, Base: 10 * time.Millisecond, Cap: 10 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	relays := make([]func(context.Context) error, 3) // three relays, as if there were three processes
	for i := range relays {
		relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
		if err != nil {
			return err
		}
		relay.Handle("account.changed", apply)
		relays[i] = relay.Run
	}
	do := func(ctx context.Context) error {
		if err := write(ctx, pool, box); err != nil {
			return err
		}
		return example.Until(ctx, pool,
			`SELECT NOT EXISTS (SELECT FROM example_ledger.outbox WHERE completed_at IS NULL)`)
	}
	if err := example.Serve(ctx, do, relays...); err != nil {
		return err
	}
	return reconcile(ctx, pool)
}

// write changes accounts from several goroutines at once.
func write(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox) error {
	group, ctx := errgroup.WithContext(ctx)
	for range writers {
		group.Go(func() error {
			for range events {
				account := fmt.Sprintf("account-%d", rand.IntN(accounts))
				event := fmt.Sprintf("deposit %d", rand.IntN(10000))
				if rand.IntN(3) == 0 {
					event = "interest 1"
				}
				if err := change(ctx, pool, box, account, event); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// change changes an account and enqueues an event about it, in one transaction. Messages with the same key are ordered:
// a second transaction with the same key waits in Enqueue until the first has ended.
func change(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox, account, event string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		n, err := book(ctx, tx, "accounts", account, event)
		if err != nil {
			return err
		}
		message := outbox.Message{Topic: "account.changed", Key: account, Payload: fmt.Appendf(nil, "%d %s", n, event)}
		_, err = box.Enqueue(ctx, workqueue.Pgx(tx), message)
		return err
	})
}

// book applies an event to an account, and returns the number of the account's change.
func book(ctx context.Context, tx pgx.Tx, table, account, event string) (n int, err error) {
	var kind string
	var amount int
	if _, err := fmt.Sscan(event, &kind, &amount); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `UPDATE example_ledger.`+table+` SET changes = changes + 1,
		cents = CASE $2 WHEN 'interest' THEN cents + cents * $3 / 100 ELSE cents + $3 END
		WHERE id = $1 RETURNING changes`, account, kind, amount).Scan(&n)
	return n, err
}

// apply is the handler: it applies an event to the account's statement. About every twentieth event fails in its first
// attempt, and the later events of its account wait until it is retried.
func apply(ctx context.Context, m *outbox.Delivery) error {
	if m.Attempt == 1 && rand.IntN(20) == 0 {
		return errors.New("the printer is out of paper")
	}
	var number int
	var kind, amount string
	if _, err := fmt.Sscan(string(m.Payload), &number, &kind, &amount); err != nil {
		return workqueue.Permanent(err)
	}
	return m.Tx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO example_ledger.lines (account, change) VALUES ($1, $2)`, m.Key,
			number); err != nil {
			return err
		}
		_, err := book(ctx, tx, "statements", m.Key, kind+" "+amount)
		return err
	})
}

func reconcile(ctx context.Context, pool *pgxpool.Pool) error {
	err := example.Count(ctx, pool,
		`SELECT 'events that came after a retry', count(*) FROM example_ledger.outbox WHERE attempts > 1`)
	if err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `VALUES
		('events applied', (SELECT count(*) FROM example_ledger.lines), $1::bigint),
		('of these in commit order', (SELECT count(*) FROM (SELECT change, row_number() OVER (PARTITION BY account ORDER BY position) AS place
			FROM example_ledger.lines) AS l WHERE change = place), $1),
		('statements that agree with their account', (SELECT count(*) FROM (TABLE example_ledger.accounts
			INTERSECT TABLE example_ledger.statements) AS equal), $2),
		('cents', (SELECT sum(cents) FROM example_ledger.statements)::bigint, (SELECT sum(cents) FROM example_ledger.accounts)::bigint)`,
		writers*events, accounts)
}
