// Tenants keeps the rows of several tenants in one queue and separates them by row-level security. Producers and
// workers of a tenant see, write, claim and settle only its rows. Without a tenant they see nothing.
//
// The roles are those of
//
//	txwork roles --schema example_tenants --prefix example_tenants --table documents
//
// The policy trusts the setting app.tenant, which any session can change. It protects against code that forgets a WHERE
// clause, but not against SQL that a tenant writes. If tenants can run SQL, give each of them a role, and let the
// policy check current_user. The policy does not apply to the table's owner, so migrations and maintenance see all
// rows.
package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/workqueue"
)

const (
	schema    = "example_tenants"
	acme      = "acme"
	globex    = "globex"
	documents = 50 // for each tenant
)

//go:embed policy.sql
var policy string

// The tenant is a lane: the claims of one tenant never read another tenant's part of the index.
var spec = workqueue.Spec{
	Schema: schema,
	Table:  "documents",
	Columns: []workqueue.Column{
		{Name: "tenant", Type: "text", NotNull: true},
		{Name: "title", Type: "text", NotNull: true},
	},
	Lanes: []string{"tenant"},
}

// A Document has the domain columns of the table.
type Document struct{ Tenant, Title string }

func main() { example.Main(run) }

func run(ctx context.Context, owner *pgxpool.Pool) error {
	password, err := prepare(ctx, owner)
	if err != nil {
		return err
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	if err != nil {
		return err
	}
	logins := &logins{owner: owner, password: password}
	defer logins.close()
	for _, tenant := range []string{acme, globex} {
		if err := write(ctx, logins.as("producer", tenant), table, tenant); err != nil {
			return err
		}
	}
	through, err := attack(ctx, logins, table)
	if err != nil {
		return err
	}
	for _, tenant := range []string{acme, globex} {
		if err := work(ctx, logins.as("worker", tenant), table, tenant); err != nil {
			return err
		}
	}
	return reconcile(ctx, owner, logins, through)
}

// prepare creates the table, the policy and the roles, and gives the roles a random password for this run.
func prepare(ctx context.Context, owner *pgxpool.Pool) (password string, err error) {
	up, _, err := spec.DDL()
	if err != nil {
		return "", err
	}
	roles, err := migrations.Roles(migrations.RoleOptions{Schema: schema, Prefix: schema,
		Tables: []migrations.RoleTable{{Name: spec.Table}}})
	if err != nil {
		return "", err
	}
	password = rand.Text()
	passwords := fmt.Sprintf("ALTER ROLE %[1]s_producer PASSWORD '%[2]s'; ALTER ROLE %[1]s_worker PASSWORD '%[2]s'",
		schema, password)
	return password, pgx.BeginFunc(ctx, owner, func(tx pgx.Tx) error {
		for _, statements := range []string{"DROP SCHEMA IF EXISTS " + schema + " CASCADE; CREATE SCHEMA " + schema, up,
			policy, roles, passwords} {
			if _, err := tx.Exec(ctx, statements); err != nil {
				return err
			}
		}
		return nil
	})
}

// write enqueues documents, as the application of a tenant does.
func write(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table, tenant string) error {
	rows := make([]workqueue.NewRow, documents)
	for i := range rows {
		rows[i].Values = []any{tenant, fmt.Sprintf("document %d", i)}
	}
	return workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error {
		_, err := table.Insert(ctx, tx, rows...)
		return err
	})
}

// work runs a worker of a tenant until all of its documents are done.
func work(ctx context.Context, pool *pgxpool.Pool, table *workqueue.Table, tenant string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	domain := workqueue.Domain[Document]{
		Table: table, Fields: func(d *Document) []any { return []any{&d.Tenant, &d.Title} }, Lanes: [][]any{{tenant}},
	}
	worker, err := workqueue.NewWorker(pool, domain, func(context.Context, *workqueue.Claim[Document]) error {
		if done.Add(1) == documents {
			stop()
		}
		return nil
	}, workqueue.WorkerOptions{})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func reconcile(ctx context.Context, owner *pgxpool.Pool, logins *logins, through []string) error {
	for _, what := range through {
		fmt.Println("  got through:", what)
	}
	var seen [3]int64
	for i, tenant := range []string{acme, globex, ""} {
		if err := logins.as("worker", tenant).QueryRow(ctx,
			"SELECT count(*) FROM example_tenants.documents").Scan(&seen[i]); err != nil {
			return err
		}
	}
	return example.Reconcile(ctx, owner, `VALUES
		('documents done, of acme', (SELECT count(*) FROM example_tenants.documents WHERE status = 2 AND tenant = 'acme'), $1::bigint),
		('documents done, of globex', (SELECT count(*) FROM example_tenants.documents WHERE status = 2 AND tenant = 'globex'), $1),
		('seen by the worker of acme', $2::bigint, $1),
		('seen by the worker of globex', $3::bigint, $1),
		('seen without a tenant', $4::bigint, 0::bigint),
		('attempts across tenants that got through', $5::bigint, 0::bigint)`,
		documents, seen[0], seen[1], seen[2], len(through))
}
