// Gormapp enqueues in the transactions of GORM: an order and the message about it commit together.
package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const orders = 200

// An Order is the GORM model of an order, and the payload of the message about it.
type Order struct {
	ID       uint
	Customer string
	Cents    int
}

// TableName implements GORM's Tabler.
func (Order) TableName() string { return "example_gorm.orders" }

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	if err := example.Fresh(ctx, pool, "example_gorm",
		`CREATE TABLE example_gorm.invoices (order_id bigint, cents int)`); err != nil {
		return err
	}
	// GORM and the relay share the pool.
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: stdlib.OpenDBFromPool(pool)}))
	if err != nil {
		return err
	}
	if err := db.AutoMigrate(&Order{}); err != nil {
		return err
	}
	box, err := outbox.Open(outbox.Options{Schema: "example_gorm"})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		return err
	}
	relay.Handle("order.placed", invoice)
	kept := 0
	sell := func(ctx context.Context) error {
		for i := range orders {
			err := place(db.WithContext(ctx), box, Order{Customer: "Ada", Cents: i})
			if err != nil && !errors.Is(err, errNoCredit) {
				return err
			} else if err == nil {
				kept++
			}
		}
		return example.Until(ctx, pool,
			`SELECT NOT EXISTS (SELECT FROM example_gorm.outbox WHERE completed_at IS NULL)`)
	}
	if err := example.Serve(ctx, sell, relay.Run); err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `VALUES
		('orders kept', (SELECT count(*) FROM example_gorm.orders), $1::bigint),
		('messages', (SELECT count(*) FROM example_gorm.outbox), $1),
		('invoices', (SELECT count(*) FROM example_gorm.invoices), $1),
		('invoices that agree with their order', (SELECT count(*) FROM example_gorm.invoices AS i
			JOIN example_gorm.orders AS o ON o.id = i.order_id AND o.cents = i.cents), $1)`, kept)
}

var errNoCredit = errors.New("no credit")

// place writes an order and its message in one transaction. If the function returns an error, GORM rolls both back.
func place(db *gorm.DB, box *outbox.Outbox, order Order) error {
	return db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		payload, err := json.Marshal(order)
		if err != nil {
			return err
		}
		_, err = box.Enqueue(tx.Statement.Context, inTransaction(tx), outbox.Message{Topic: "order.placed",
			Payload: payload})
		if err != nil {
			return err
		}
		if order.Cents%9 == 0 {
			return errNoCredit
		}
		return nil
	})
}

// inTransaction returns GORM's transaction for txwork: its *sql.Tx, or GORM's wrapper around it if GORM prepares
// statements. It panics outside a transaction, because the connection is a *sql.DB there.
func inTransaction(tx *gorm.DB) workqueue.Tx {
	return workqueue.SQL(tx.Statement.ConnPool.(workqueue.SQLTx))
}

// invoice writes the invoice in the transaction that settles the message, so every order gets exactly one invoice.
func invoice(ctx context.Context, m *outbox.Delivery) error {
	var order Order
	if err := json.Unmarshal(m.Payload, &order); err != nil {
		return workqueue.Permanent(err)
	}
	return m.Tx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO example_gorm.invoices VALUES ($1, $2)`, order.ID, order.Cents)
		return err
	})
}
