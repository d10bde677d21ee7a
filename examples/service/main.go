// Service runs several kinds of parts in one process: an outbox relay, an inbox consumer, timers, jobs, and the
// schedules of timers and jobs. The service also runs the reaper. The example counts the connections of the process,
// busy and idle, and its transactions per second when it is idle.
package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func main() { example.Main(run) }

// A shop has the tables that the service uses.
type shop struct {
	outbox *outbox.Outbox
	inbox  *inbox.Inbox
	timers *timers.Timers
	jobs   *jobs.Client
	kinds  *jobs.Registry
}

const schema = "example_service"

func open() (s shop, err error) {
	s.kinds = jobs.NewRegistry()
	if s.outbox, err = outbox.Open(outbox.Options{Schema: schema}); err != nil {
		return s, err
	}
	if s.inbox, err = inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour}); err != nil {
		return s, err
	}
	if s.timers, err = timers.Open(timers.Options{Schema: schema}); err != nil {
		return s, err
	}
	s.jobs, err = jobs.Open(jobs.Options{Schema: schema, Registry: s.kinds})
	return s, err
}

type invoice struct{ Order int }

func (invoice) Kind() string { return "invoice" }

var handled atomic.Int64

// parts returns the parts of the service. The workers of timers and jobs also process their schedules.
func (s shop) parts(pool *pgxpool.Pool) ([]service.Part, error) {
	relay, err := outbox.NewRelay(pool, s.outbox, outbox.RelayOptions{})
	if err != nil {
		return nil, err
	}
	relay.HandleAll(func(context.Context, *outbox.Delivery) error { handled.Add(1); return nil })
	payments, err := inbox.NewWorker(pool, s.inbox, inbox.WorkerOptions{Consumer: "payments"})
	if err != nil {
		return nil, err
	}
	payments.HandleAll(func(context.Context, pgx.Tx, *inbox.Delivery) error { handled.Add(1); return nil })
	clock, err := timers.NewWorker(pool, s.timers, timers.WorkerOptions{})
	if err != nil {
		return nil, err
	}
	clock.HandleAll(func(context.Context, *timers.Delivery) error { handled.Add(1); return nil })
	jobs.Register(s.kinds, func(context.Context, *jobs.Job[invoice]) error { handled.Add(1); return nil },
		jobs.KindOptions[invoice]{})
	worker, err := jobs.NewWorker(pool, s.jobs, jobs.WorkerOptions{})
	return []service.Part{relay, payments, clock, worker}, err
}

func run(ctx context.Context, admin *pgxpool.Pool) error {
	if err := example.Fresh(ctx, admin, schema, ""); err != nil {
		return err
	}
	s, err := open()
	if err != nil {
		return err
	}
	config := admin.Config().Copy() // a separate pool, whose sessions are counted by their name
	config.ConnConfig.RuntimeParams["application_name"] = schema
	config.ConnConfig.Tracer = tracer{}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	parts, err := s.parts(pool)
	if err != nil {
		return err
	}
	all, err := service.New(pool, service.Options{}, parts...)
	if err != nil {
		return err
	}
	var busy, idle footprint
	work := func(ctx context.Context) (err error) {
		for all.Ready() != nil {
			time.Sleep(10 * time.Millisecond)
		}
		if busy, err = s.work(ctx, admin); err != nil {
			return err
		}
		time.Sleep(rest)
		idle, err = measure(ctx, admin, reaper.DefaultInterval)
		return err
	}
	if err := example.Serve(ctx, work, all.Run); err != nil {
		return err
	}
	fmt.Printf("  connections: %d busy, %d idle; transactions of an idle second: %.1f\n", busy.connections,
		idle.connections, idle.transactions)
	most := all.Runtime().MaxConnections() + int(pool.Config().MaxConns)
	return example.Reconcile(ctx, admin, `VALUES ('rows that were handled', $1::bigint, $2::bigint),
		('rows that are left', (SELECT count(*) FROM example_service.outbox WHERE completed_at IS NULL)
			+ (SELECT count(*) FROM example_service.inbox WHERE completed_at IS NULL)
			+ (SELECT count(*) FROM example_service.timers WHERE completed_at IS NULL)
			+ (SELECT count(*) FROM example_service.jobs WHERE completed_at IS NULL), 0),
		('connections above the bound', greatest($3::bigint - $4::bigint, 0), 0),
		('idle transactions a second above the budget', greatest(ceil($5::float8)::bigint - $6::bigint, 0), 0)`,
		handled.Load(), 4*orders, max(busy.connections, idle.connections), most, idle.transactions, idleTransactions)
}

const (
	orders = 500

	// idleTransactions is how many transactions per second an idle service may begin: polls, sweeps of six tables, and
	// up to two rounds of the reaper during the measurement.
	idleTransactions = 10

	// rest is how long the example waits after the last order, until the service is idle.
	rest = 3 * time.Second
)

// work writes a row for each part in the transaction of every order, and waits until all rows are handled.
func (s shop) work(ctx context.Context, pool *pgxpool.Pool) (most footprint, err error) {
	for i := range orders {
		err := workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error { return s.order(ctx, tx, i) })
		if err != nil {
			return most, err
		}
		if i%50 == 0 {
			now, err := measure(ctx, pool, 0)
			if err != nil {
				return most, err
			}
			most.connections = max(most.connections, now.connections)
		}
	}
	for handled.Load() < 4*orders && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return most, ctx.Err()
}

func (s shop) order(ctx context.Context, tx workqueue.Tx, i int) error {
	name := fmt.Sprintf("order-%d", i)
	if _, err := s.outbox.Enqueue(ctx, tx, outbox.Message{Topic: "order.placed"}); err != nil {
		return err
	}
	if _, err := s.inbox.Receive(ctx, tx, inbox.Message{Consumer: "payments", Source: "bank",
		MessageID: name}); err != nil {
		return err
	}
	if _, err := s.timers.Set(ctx, tx, timers.Timer{Key: name, Topic: "reminder",
		Delay: 10 * time.Millisecond}); err != nil {
		return err
	}
	_, err := s.jobs.Enqueue(ctx, tx, jobs.Insert{Args: invoice{Order: i}})
	return err
}

// A footprint is the load that the service puts on the database server.
type footprint struct {
	connections  int
	transactions float64 // per second
}

// measure counts the service's sessions, and the transactions that they begin during some time.
func measure(ctx context.Context, pool *pgxpool.Pool, during time.Duration) (f footprint, err error) {
	start, before := time.Now(), begun.Load()
	time.Sleep(during)
	if during > 0 {
		f.transactions = float64(begun.Load()-before) / time.Since(start).Seconds()
	}
	err = pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`,
		schema).Scan(&f.connections)
	return f, err
}

// begun counts transactions. The server's own statistics would be late: a session reports them after it has been idle
// for ten seconds.
var begun atomic.Int64

// A tracer counts the statements that are sent outside a transaction. Each of them begins one, whether it is a BEGIN or
// a single statement.
type tracer struct{}

func (tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return count(ctx, conn)
}

func (tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return count(ctx, conn)
}

func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func count(ctx context.Context, conn *pgx.Conn) context.Context {
	if conn.PgConn().TxStatus() == 'I' {
		begun.Add(1)
	}
	return ctx
}
