package invoices_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/txwork/txwork/examples/customtable/invoices"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

// open creates the table in a schema of the test's own.
func open(t *testing.T) (*txworktest.DB, *invoices.Invoices) {
	t.Helper()
	db := txworktest.Schema(t, txworktest.Server(t))
	up, _, err := invoices.Spec(db.Schema).DDL()
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, up)
	list, err := invoices.Open(db.Schema, workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	return db, list
}

func TestInvoicesAreSent(t *testing.T) {
	t.Parallel()
	db, list := open(t)
	tx := db.Begin(t) // all happens in it, and is rolled back
	v := invoices.Invoice{Number: "2026-1", Channel: "email", Customer: "acme", Cents: 4200}
	if _, err := list.Enqueue(t.Context(), workqueue.Pgx(tx), v); err != nil {
		t.Fatal(err)
	}
	worker, err := invoices.NewWorker(db.Pool, list, workqueue.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var sent []invoices.Invoice
	worker.Handle("email", func(_ context.Context, d *invoices.Delivery) error {
		sent = append(sent, d.Invoice)
		return nil
	})
	txworktest.Drain(t, tx, worker)
	if len(sent) != 1 || sent[0] != v {
		t.Errorf("sent %+v", sent)
	}
	txworktest.RequireStatus(t, tx, list, workqueue.Done, txworktest.Column("number", "2026-1"))
}

func TestAnInvoiceIsEnqueuedOnce(t *testing.T) {
	t.Parallel()
	db, list := open(t)
	v := invoices.Invoice{Number: "2026-1", Channel: "email", Customer: "acme", Cents: 4200}
	tx, err := db.SQL(t).BeginTx(t.Context(), nil) // of database/sql
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	enqueued, err := list.Enqueue(t.Context(), workqueue.SQL(tx), v, v)
	if err != nil || enqueued[0].Duplicate || !enqueued[1].Duplicate {
		t.Errorf("got %+v, %v", enqueued, err)
	}
	v.Cents = 0
	var refused *workqueue.ItemError
	if _, err := list.Enqueue(t.Context(), workqueue.SQL(tx), v); !errors.As(err, &refused) {
		t.Errorf("an invoice about nothing: %v", err)
	}
}

// The migration must match the Spec.
func TestMigration(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../migrations/00001_invoices.sql")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := migrations.DDL(invoices.Spec("billing")); err != nil || string(file) != want {
		t.Errorf("print the migration again: it is not that of the Spec (%v)", err)
	}
}
