package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/workqueue"
)

// A store keeps messages, and delivers them to consumers.
type store interface {
	// prepare makes the tables, and the consumers: so many that get all messages, and so many idle ones that get none.
	prepare(ctx context.Context, pool *pgxpool.Pool, consumers, idle int) error
	write(ctx context.Context, tx pgx.Tx, bodies [][]byte) error
	// consume delivers messages to all consumers until ctx is cancelled. Handle may be called from several goroutines.
	consume(ctx context.Context, pool *pgxpool.Pool, handle func(body []byte)) error
}

// notThere says that a store cannot be had on this server.
type notThere struct{ why string }

func (n *notThere) Error() string { return n.why }

var stores = map[string]func() store{"rows": newRows, "log": newLog, "pgq": newPgQ, "pgmq": newPgmq}

// txwork is an outbox.
type txwork struct {
	storage outbox.Storage
	domains []migrations.Domain
	box     *outbox.Outbox
	of      []string // subscriptions; of rows one without a name
}

func newRows() store {
	return &txwork{domains: []migrations.Domain{migrations.Reaper, migrations.Outbox}, of: []string{""}}
}

func newLog() store {
	return &txwork{storage: outbox.Log, domains: []migrations.Domain{migrations.Reaper, migrations.Log}}
}

func (t *txwork) prepare(ctx context.Context, pool *pgxpool.Pool, consumers, idle int) (err error) {
	text, err := migrations.SQL(migrations.FileOptions{Domains: t.domains})
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, text); err != nil {
		return err
	}
	if t.box, err = outbox.Open(outbox.Options{Storage: t.storage}); err != nil || t.storage == outbox.Rows {
		return err
	}
	return workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error {
		for i := range consumers + idle {
			s := outbox.Subscription{Name: fmt.Sprintf("s%d", i), Topics: []string{"job"}}
			if i >= consumers {
				s.Topics = []string{"other"}
			}
			if err := t.box.Subscribe(ctx, tx, s); err != nil {
				return err
			}
			t.of = append(t.of, s.Name)
		}
		return nil
	})
}

func (t *txwork) write(ctx context.Context, tx pgx.Tx, bodies [][]byte) error {
	messages := make([]outbox.Message, len(bodies))
	for i, b := range bodies {
		messages[i] = outbox.Message{Topic: "job", Payload: b}
	}
	_, err := t.box.EnqueueMany(ctx, workqueue.Pgx(tx), messages...)
	return err
}

func (t *txwork) consume(ctx context.Context, pool *pgxpool.Pool, handle func(body []byte)) error {
	var parts []service.Part
	for _, name := range t.of {
		relay, err := outbox.NewRelay(pool, t.box, outbox.RelayOptions{Subscription: name})
		if err != nil {
			return err
		}
		relay.HandleAll(func(_ context.Context, d *outbox.Delivery) error {
			handle(d.Payload)
			return nil
		})
		parts = append(parts, relay)
	}
	s, err := service.New(pool, service.Options{MaintainedElsewhere: true, HandlersWithoutPool: true,
		Logger: slog.New(slog.DiscardHandler)}, parts...)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// together runs functions until ctx is cancelled, or one of them fails.
func together(ctx context.Context, all []func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, run := range all {
		group.Go(func() {
			defer stop()
			errs[i] = run(ctx)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
