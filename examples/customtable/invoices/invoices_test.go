package invoices_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/txwork/txwork/examples/customtable/invoices"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
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
	enqueued, err := list.EnqueueMany(t.Context(), workqueue.SQL(tx), v, v)
	if err != nil || enqueued[0].Duplicate || !enqueued[1].Duplicate {
		t.Errorf("got %+v, %v", enqueued, err)
	}
	v.Cents = 0
	var refused *workqueue.InvalidError
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

// Other programs write invoices with the function of the migration.
func TestInvoicesFromSQL(t *testing.T) {
	t.Parallel()
	db, list := open(t)
	tx := db.Begin(t)
	for _, duplicate := range []bool{false, true} {
		var again bool
		err := tx.QueryRow(t.Context(), "SELECT duplicate FROM "+list.Table().Name()+"_enqueue(number => '2026-7', "+
			"channel => 'email', customer => 'acme', cents => 4200)").Scan(&again)
		if err != nil || again != duplicate {
			t.Errorf("a duplicate: %t, want %t: %v", again, duplicate, err)
		}
	}
}

// orderedSpec is the table of invoices that are sent one at a time for each customer.
func orderedSpec(schema string) workqueue.Spec {
	spec := invoices.Spec(schema)
	spec.Columns = workqueue.ColumnsOf(orderedColumns)
	spec.KeyColumn = keyed.KeyColumn
	spec.Folds = []workqueue.Fold{keyed.Fold}
	spec.Sweeps = []string{keyed.SweepSuffix}
	return spec
}

func orderedDDL(schema string) (string, error) {
	table, _, err := orderedSpec(schema).DDL()
	if err != nil {
		return "", err
	}
	keys, _, err := keyed.DDL(orderedSpec(schema))
	return "CREATE SCHEMA IF NOT EXISTS " + schema + ";\n" + table + keys, err
}

func orderedColumns(v *invoices.Invoice, c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "number", Type: "text", NotNull: true}, &v.Number)
	c.Field(workqueue.Column{Name: "channel", Type: "text", NotNull: true}, &v.Channel)
	c.Field(workqueue.Column{Name: "customer", Type: "text", NotNull: true}, &v.Customer)
	c.Field(workqueue.Column{Name: "cents", Type: "bigint", NotNull: true}, &v.Cents)
	keyed.Columns(c, keyed.Ordered{Key: v.Customer})
}

// Invoices of a customer are sent in their order, whether Go or SQL wrote them. The DDL makes its own schema.
func TestInvoicesInOrder(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	schema := db.Schema + "_own"
	ddl, err := orderedDDL(schema)
	if err != nil {
		t.Fatal(err)
	}
	tx := db.Begin(t)
	if _, err := tx.Exec(t.Context(), ddl); err != nil {
		t.Fatal(err)
	}
	table, err := workqueue.Open(orderedSpec(schema), workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	domain := workqueue.Domain[invoices.Invoice]{Table: table, Columns: orderedColumns}
	worker, err := workqueue.NewWorker(db.Pool, domain,
		func(_ context.Context, c *workqueue.Claim[invoices.Invoice]) error {
			sent = append(sent, c.Body.Number)
			return nil
		}, workqueue.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := invoices.Invoice{Number: "1", Channel: "email", Customer: "acme", Cents: 4200}
	row := workqueue.NewRow{Values: workqueue.ValuesOf(&v, orderedColumns)}
	if _, err := table.Insert(t.Context(), workqueue.Pgx(tx), row); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT "+schema+".invoices_enqueue('2', 'email', 'acme', 4200, "+
		"ordered_key => 'acme')"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE "+schema+".invoices SET due_at = due_at - key_seq * interval '1 hour'"); err != nil {
		t.Fatal(err)
	}
	txworktest.Drain(t, tx, worker)
	if !slices.Equal(sent, []string{"1", "2"}) {
		t.Errorf("sent %v", sent)
	}
}
