// Tenants keeps the jobs of several tenants in one table and separates them by row-level security. Producers and
// workers of a tenant see, write, claim and settle only its jobs, with their keys, batches, schedules and limits.
// Without a tenant they see nothing. A process that sees all jobs folds, repairs and fires schedules for all. The
// messages of an outbox are separated by their topics, of which one is paused.
//
// The roles are those of
//
//	txwork roles --schema example_tenants --prefix example_tenants --domain jobs --domain outbox
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
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const (
	schema = "example_tenants"
	acme   = "acme"
	globex = "globex"

	plain, ordered, limited, steps = 20, 10, 10, 5
	messages                       = 5
	all                            = plain + ordered + limited + steps + 1 // with the job after the steps
)

var domains = []migrations.Domain{migrations.Jobs, migrations.Outbox}

//go:embed policy.sql
var policy string

// Print is the work of all jobs.
type Print struct {
	Tenant string
	Turn   int64 // of a job that has to run in order; 0: in any
}

func (Print) Kind() string { return "print" }

func main() { example.Main(run) }

func run(ctx context.Context, owner *pgxpool.Pool) error {
	password, err := prepare(ctx, owner)
	if err != nil {
		return err
	}
	logins := &logins{owner: owner, password: password}
	defer logins.close()
	client, err := jobs.Open(jobs.Options{Schema: schema})
	if err != nil {
		return err
	}
	box, err := outbox.Open(outbox.Options{Schema: schema})
	if err != nil {
		return err
	}
	for _, tenant := range []string{acme, globex} {
		if err := write(ctx, client, logins, tenant); err != nil {
			return err
		}
	}
	if err := send(ctx, box, logins); err != nil {
		return err
	}
	through, err := attack(ctx, logins, client, box)
	if err != nil {
		return err
	}
	for _, what := range through {
		fmt.Println("  got through:", what)
	}
	held, err := resume(ctx, box, owner)
	if err != nil {
		return err
	}
	relay, err := newRelay(box, logins)
	if err != nil {
		return err
	}
	var disorder atomic.Int64
	workers := []func(context.Context) error{relay.Run}
	for queue, pool := range map[string]*pgxpool.Pool{acme: logins.as("worker", acme), globex: logins.as("worker",
		globex), "operations": owner} {
		worker, err := newWorker(client, pool, queue, &disorder)
		if err != nil {
			return err
		}
		workers = append(workers, worker.Run)
	}
	if err := example.Serve(ctx, func(ctx context.Context) error {
		return example.Until(ctx, owner, `SELECT count(*) FILTER (WHERE completed_at IS NULL AND schedule IS NULL) = 0
			AND count(DISTINCT queue) FILTER (WHERE schedule IS NOT NULL AND status = 2) = 2
			AND (SELECT count(*) FROM example_tenants.outbox WHERE status = 2) = $1 FROM example_tenants.jobs`, messages)
	}, workers...); err != nil {
		return err
	}
	return reconcile(ctx, owner, logins, through, disorder.Load(), held)
}

// prepare creates the tables, the roles and the policies, gives the roles a random password for this run, sets the
// limits of both queues and pauses a topic, which only a role can that sees all rows.
func prepare(ctx context.Context, owner *pgxpool.Pool) (password string, err error) {
	roles, err := migrations.Roles(migrations.RoleOptions{Schema: schema, Prefix: schema, Domains: domains})
	if err != nil {
		return "", err
	}
	if _, err := owner.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
		return "", err
	}
	migrator, err := migrations.New(owner, migrations.Options{Schema: schema, Domains: domains})
	if err != nil {
		return "", err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return "", err
	}
	if _, err := owner.Exec(ctx, roles); err != nil {
		return "", err
	}
	password = rand.Text()
	passwords := fmt.Sprintf("ALTER ROLE %[1]s_producer PASSWORD '%[2]s'; ALTER ROLE %[1]s_worker PASSWORD '%[2]s'",
		schema, password)
	return password, pgx.BeginFunc(ctx, owner, func(tx pgx.Tx) error {
		for _, statements := range []string{policy, passwords,
			"INSERT INTO example_tenants.jobs_queue (name, max_running) VALUES ('acme', 5), ('globex', 5)",
			"SELECT example_tenants.outbox_pause('globex:mail')"} {
			if _, err := tx.Exec(ctx, statements); err != nil {
				return err
			}
		}
		return nil
	})
}

// newWorker makes the worker of a queue. One of them sees all jobs, and does for all what needs that.
func newWorker(client *jobs.Client, pool *pgxpool.Pool, queue string, disorder *atomic.Int64) (*jobs.Worker, error) {
	kinds := jobs.NewRegistry()
	var turn atomic.Int64
	jobs.Register(kinds, func(_ context.Context, job *jobs.Job[Print]) error {
		if job.Args.Tenant != queue {
			return errors.New("a job of another tenant")
		}
		if job.Args.Turn > 0 && turn.Add(1) != job.Args.Turn {
			disorder.Add(1)
		}
		return nil
	}, jobs.KindOptions[Print]{})
	return jobs.NewWorker(pool, client, jobs.WorkerOptions{Registry: kinds,
		Queues: []jobs.QueueOptions{{Name: queue}}})
}

func reconcile(ctx context.Context, owner *pgxpool.Pool, logins *logins, through []string, disorder, held int64) error {
	var seen [3]int64
	for i, tenant := range []string{acme, globex, ""} {
		if err := logins.as("worker", tenant).QueryRow(ctx,
			"SELECT count(*) FROM example_tenants.jobs WHERE schedule IS NULL").Scan(&seen[i]); err != nil {
			return err
		}
	}
	return example.Reconcile(ctx, owner, `
		WITH j AS (SELECT * FROM example_tenants.jobs WHERE schedule IS NULL AND status = 2)
		VALUES ('jobs done, of acme', (SELECT count(*) FROM j WHERE queue = 'acme'), $1::bigint),
		('jobs done, of globex', (SELECT count(*) FROM j WHERE queue = 'globex'), $1),
		('batches completed', (SELECT count(*) FROM example_tenants.jobs_join WHERE status = 1), 2),
		('messages that the pause held', $7::bigint, $8),
		('messages delivered after it', (SELECT count(*) FROM example_tenants.outbox WHERE status = 2), $8),
		('ordered jobs out of order', $2::bigint, 0),
		('seen by the worker of acme', $3::bigint, $1),
		('seen by the worker of globex', $4::bigint, $1),
		('seen without a tenant', $5::bigint, 0),
		('attempts across tenants that got through', $6::bigint, 0)`,
		all, disorder, seen[0], seen[1], seen[2], len(through), held, messages)
}

// inTx runs do in a transaction of its own.
func inTx(ctx context.Context, pool *pgxpool.Pool, do func(workqueue.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return do(workqueue.Pgx(tx)) })
}
