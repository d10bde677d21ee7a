package kills

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/proof/clients"
)

var duration = flag.Duration("duration", 0, "how long programs of others are killed; 0: as the size says")

// The programs in the directory programs were written from docs/sql.md alone, by authors who knew nothing else of
// txwork. What works on a table works on the tables that Go's workers work on, too.
var programs = map[string]func(context.Context) []string{
	producer: clients.Node, "outbox_worker.py": clients.Python, "inbox_consumer.py": clients.Python,
	"jobs_worker.py": clients.Python, "psql_worker.sh": clients.Bash,
}

const producer = "producer.js"

func TestTheProgramsAreShort(t *testing.T) {
	t.Parallel()
	for name := range programs {
		text, err := os.ReadFile(filepath.Join("programs", name))
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines >= 120 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}

const (
	producers = 2
	perSecond = 20 // orders of each producer
)

const running = 4 // the limit of the queue

// effects are written by whoever handles a row, in the transaction that settles it. The first columns are those that
// the programs know. No key refuses a second effect. The audit has what the limit of the queue is checked with.
const effects = `
	CREATE TABLE public.handled (id uuid, topic text, key text, n int, pid int,
		at timestamptz DEFAULT clock_timestamp(), by text DEFAULT current_setting('application_name'));
	CREATE TABLE public.received (source text, message_id text, by text DEFAULT current_setting('application_name'));
	CREATE TABLE public.steps (job uuid, step text, n int, by text DEFAULT current_setting('application_name'));
	CREATE TABLE public.orders (id bigint PRIMARY KEY, customer int);
	CREATE TABLE public.audit (xid xid, running int);
	CREATE FUNCTION public.audit() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.audit
		VALUES (pg_current_xact_id()::xid, (NEW.status = 1)::int - (OLD.status = 1)::int);
		RETURN NULL;
	END
	$$;
	CREATE TRIGGER audit AFTER UPDATE ON txwork.jobs FOR EACH ROW
		WHEN ((OLD.status = 1) <> (NEW.status = 1)) EXECUTE FUNCTION public.audit();`

// Programs of others, written from the documentation, work beside Go's workers while all are killed and lose their
// connections: nothing is lost, nothing happens twice, and order and limits are exact.
func TestProgramsOfOthersBesideGo(t *testing.T) {
	t.Parallel()
	long := *duration
	if long == 0 {
		long = time.Duration(size(10, 180)) * time.Second
	}
	db := newBeside(t)
	box, in, client, err := openBeside()
	if err != nil {
		t.Fatal(err)
	}
	others := startOthers(t, db, int(long.Seconds())*perSecond)
	tables := append(append(box.Tables(), in.Tables()...), client.Table())
	started := time.Now()
	crew := startCrew(t, db, "beside", 2, 4*time.Second, tables...)
	for time.Since(started) < long {
		time.Sleep(200*time.Millisecond + rand.N(800*time.Millisecond))
		if rand.IntN(4) > 0 {
			others.killOne(t)
			continue
		}
		others.cut += ask[int](t, db, `SELECT count(pg_terminate_backend(pid))::int FROM (
			SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND application_name <> 'proof' ORDER BY random() LIMIT 1) AS one`)
	}
	t.Logf("%d processes of others and %d of Go killed, %d connections ended", others.kills, crew.killed(), others.cut)

	crew.done(others.count)
	crew.stop()
	for range 20 { // Go may have been so much faster that nothing was left to some programs
		if ask[int](t, db, didNothing) == 0 {
			break
		}
		others.writeMore(t)
		crew.done(others.count)
	}
	others.stop(t, db)
	reconcile(t, db)
	t.Logf("%d orders, %.0f s, %d attempts too many; who wrote how much: %s", producers*others.count,
		time.Since(started).Seconds(), ask[int](t, db, `SELECT ((SELECT sum(attempts - 1) FROM txwork.outbox) +
			(SELECT sum(attempts - 1) FROM txwork.inbox) + (SELECT sum(attempts - 1) FROM txwork.jobs))::int`),
		ask[string](t, db, "SELECT jsonb_object_agg(by, n ORDER BY by)::text FROM ("+whoWrote+") AS w"))
}

// done waits until the producers have written so many orders each, and everything is handled.
func (c *crew) done(count int) {
	c.Helper()
	c.until("orders", producers*count, func() int { return ask[int](c.T, c.db, "SELECT count(*)::int FROM orders") })
	c.until("ended rows", 0, func() int {
		return -ask[int](c.T, c.db, `SELECT (SELECT count(*)::int FROM txwork.outbox WHERE status < 2) +
			(SELECT count(*)::int FROM txwork.inbox WHERE status < 2) +
			(SELECT count(*)::int FROM txwork.jobs WHERE status < 2)`)
	})
}

// whoWrote counts what each program has written.
const whoWrote = `SELECT substring(by FROM '^[a-z_]+') AS by, count(*) AS n FROM (
	SELECT by FROM handled UNION ALL SELECT by FROM received UNION ALL SELECT by FROM steps) AS effects GROUP BY 1`

// didNothing counts the kinds of programs of others, all but the producer, that have written nothing.
var didNothing = fmt.Sprintf(`SELECT (%d - count(*))::int FROM (%s) AS w WHERE by <> 'go'`, len(programs)-1, whoWrote)

// reconcile counts what is wrong. Commit times are those of the server, and know nothing of keys and slots: what a
// commit released cannot be taken before it.
func reconcile(t *testing.T, db *pgtest.DB) {
	t.Helper()
	for what, sql := range map[string]string{
		"orders without exactly one effect, and effects without an order": `
			SELECT count(*) FROM (SELECT n, count(*) AS c FROM handled GROUP BY n) AS h
			FULL JOIN orders AS o ON o.id = h.n WHERE h.c IS DISTINCT FROM 1 OR o.id IS NULL`,
		"effects of another message": `
			SELECT count(*) FROM handled AS h LEFT JOIN txwork.outbox AS m USING (id)
			WHERE (h.topic, h.key, h.n) IS DISTINCT FROM
				(m.topic, m.key, (convert_from(m.payload, 'UTF8')::json->>'n')::int)
				OR h.key <> 'customer ' || h.n % 20`,
		"customers whose orders are handled in another order than they were committed in": `
			WITH o AS (SELECT customer AS c, array_agg(id ORDER BY pg_xact_commit_timestamp(xmin)) AS ids
				FROM orders GROUP BY 1),
			h AS (SELECT n % 20 AS c, array_agg(n::bigint ORDER BY at) AS ids FROM handled GROUP BY 1)
			SELECT count(*) FROM o FULL JOIN h USING (c) WHERE o.ids IS DISTINCT FROM h.ids`,
		"tenth orders without exactly one message of the inbox, and others": `
			SELECT count(*) FROM (SELECT (convert_from(payload, 'UTF8')::json->>'n')::bigint AS n, count(*) AS c
				FROM txwork.inbox GROUP BY 1) AS i
			FULL JOIN (SELECT id FROM orders WHERE id / 10 % 10 = 0) AS o ON o.id = i.n
			WHERE i.c IS DISTINCT FROM 1 OR o.id IS NULL`,
		"messages of the inbox without exactly one effect, and others": `
			SELECT count(*) FROM (SELECT source, message_id, count(*) AS c FROM received GROUP BY 1, 2) AS r
			FULL JOIN txwork.inbox AS i USING (source, message_id) WHERE r.c IS DISTINCT FROM 1 OR i.id IS NULL`,
		"tenth orders without the three steps of one job, once and in order, and others": `
			SELECT count(*) FROM (SELECT n, count(DISTINCT job) AS jobs,
					array_agg(step ORDER BY pg_xact_commit_timestamp(xmin)) AS steps FROM steps GROUP BY n) AS s
			FULL JOIN (SELECT id FROM orders WHERE id / 10 % 10 = 0) AS o ON o.id = s.n
			WHERE o.id IS NULL OR s.jobs IS DISTINCT FROM 1 OR s.steps IS DISTINCT FROM '{a,b,c}'`,
		"rows that are not done": `SELECT (SELECT count(*) FROM txwork.outbox WHERE status <> 2) +
			(SELECT count(*) FROM txwork.inbox WHERE status <> 2) +
			(SELECT count(*) FROM txwork.jobs WHERE status <> 2)`,
		"jobs beside the steps on record": `
			SELECT abs((SELECT count(*) FROM txwork.jobs_step) - (SELECT count(*) FROM steps))`,
		"jobs in progress over the limit, when most were": fmt.Sprintf(`SELECT greatest(max(n) - %d, 0) FROM (
			SELECT sum(sum(running)) OVER (ORDER BY pg_xact_commit_timestamp(xid)) AS n
			FROM audit GROUP BY pg_xact_commit_timestamp(xid)) AS moments`, running),
		"kinds of programs of others that did nothing": didNothing,
	} {
		if n := ask[int](t, db, "SELECT ("+sql+")::int"); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// asGo tells connections of Go from those of others.
const asGo = "&application_name=go"

// newBeside is a server with all domains in the schema txwork, and the tables of the application in public.
func newBeside(t *testing.T) *pgtest.DB {
	t.Helper()
	server, err := localpg.Start(t.Context(), localpg.Options{
		Settings: map[string]string{"track_commit_timestamp": "on"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	pool, err := pgxpool.New(t.Context(), server.URL()+"&application_name=proof")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	up, err := migrations.SQL(migrations.FileOptions{Schema: "txwork"})
	if err != nil {
		t.Fatal(err)
	}
	db := &pgtest.DB{Pool: pool, Schema: "txwork", URL: server.URL() + asGo}
	execute(t, db, up)
	execute(t, db, effects)
	execute(t, db, "SELECT FROM txwork.jobs_limit('steps', $1)", running)
	return db
}

func openBeside() (box *outbox.Outbox, in *inbox.Inbox, client *jobs.Client, err error) {
	if box, err = outbox.Open(outbox.Options{Telemetry: quiet()}); err != nil {
		return nil, nil, nil, err
	}
	if in, err = openInbox(""); err != nil {
		return nil, nil, nil, err
	}
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, inSteps, jobs.KindOptions[three]{Queue: "steps"})
	client, err = jobs.Open(jobs.Options{Registry: kinds, Telemetry: quiet()})
	return box, in, client, err
}

type three struct {
	N int `json:"n"`
}

func (three) Kind() string { return "three" }

func inSteps(ctx context.Context, job *jobs.Job[three]) error {
	for _, step := range []string{"a", "b", "c"} {
		_, err := jobs.StepTx(ctx, job, step, func(ctx context.Context, tx pgx.Tx) (int, error) {
			time.Sleep(150 * time.Millisecond) // so that the limit of the queue is reached
			_, err := tx.Exec(ctx, "INSERT INTO public.steps (job, step, n) VALUES ($1, $2, $3)", job.ID, step, job.Args.N)
			return job.Args.N, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// workBeside does in Go what the programs do, on all tables.
func workBeside(ctx context.Context, pool *pgxpool.Pool, _, _ string) error {
	box, in, client, err := openBeside()
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{WorkerOptions: workerOptions()})
	if err != nil {
		return err
	}
	relay.Handle("order", func(ctx context.Context, m *outbox.Delivery) error {
		var order three
		if err := m.Decode(ctx, &order); err != nil {
			return err
		}
		return m.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO public.handled (id, topic, key, n, pid) VALUES ($1, $2, $3, $4, $5)",
				m.ID, m.Topic, m.Key, order.N, os.Getpid())
			return err
		})
	})
	consumer, err := inbox.NewWorker(pool, in,
		inbox.WorkerOptions{Consumer: "warehouse", WorkerOptions: workerOptions()})
	if err != nil {
		return err
	}
	consumer.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
		_, err := tx.Exec(ctx, "INSERT INTO public.received (source, message_id) VALUES ($1, $2)", m.Source, m.MessageID)
		return err
	})
	worker, err := jobs.NewWorker(pool, client, jobs.WorkerOptions{
		WorkerOptions: workerOptions(), Queues: []jobs.QueueOptions{{Name: "steps"}},
	})
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return relay.Run(ctx) })
	all.Go(func() error { return consumer.Run(ctx) })
	all.Go(func() error { return worker.Run(ctx) })
	return all.Wait()
}

// others are two processes of each program.
type others struct {
	slots      []*other
	count      int // of the orders that each producer writes
	kills, cut int
}

type other struct {
	name   string
	slot   int
	spawn  func(label string) *exec.Cmd
	starts int
	label  string // of the process
	cmd    *exec.Cmd
	output lockedBuffer
	err    error
	ended  chan struct{}
}

func startOthers(t *testing.T, db *pgtest.DB, count int) *others {
	t.Helper()
	o := &others{count: count}
	for name, driver := range programs {
		interpreter := driver(t.Context())
		if interpreter == nil {
			t.Skip("the driver of " + name + " is missing: .ci/drivers installs it")
		}
		for i := range producers {
			p := &other{name: name, slot: i, spawn: func(label string) *exec.Cmd {
				c := exec.CommandContext(t.Context(), interpreter[0], append(interpreter[1:], name)...)
				c.Dir = "programs"
				c.Env = append(clients.Environment(), "DATABASE_URL="+strings.TrimSuffix(db.URL, asGo),
					"PGAPPNAME="+label, "WORK_MS=30",
					fmt.Sprint("COUNT=", o.count), fmt.Sprint("PRODUCER=", i+1), fmt.Sprint("RATE=", perSecond))
				return c
			}}
			p.start(t)
			o.slots = append(o.slots, p)
		}
	}
	return o
}

func (p *other) start(t *testing.T) {
	t.Helper()
	p.starts++
	p.label = fmt.Sprint(p.name, " ", p.slot, ".", p.starts)
	p.cmd, p.ended = p.spawn(p.label), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second // a psql that outlives its shell for a moment has its output, too
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
}

// killOne kills a process and starts it again. A producer may have ended, as it should once all orders are there.
func (o *others) killOne(t *testing.T) {
	t.Helper()
	p := o.slots[rand.IntN(len(o.slots))]
	select {
	case <-p.ended:
		p.check(t)
	default:
		p.cmd.Process.Kill()
		<-p.ended
		o.kills++
	}
	p.start(t)
}

// writeMore makes the producers write more orders than they have written.
func (o *others) writeMore(t *testing.T) {
	t.Helper()
	o.count += 5 * perSecond
	for _, p := range o.slots {
		if p.name == producer {
			p.end(t)
			p.start(t)
		}
	}
}

// stop ends the processes as a platform does.
func (o *others) stop(t *testing.T, db *pgtest.DB) {
	t.Helper()
	for _, p := range o.slots {
		p.ready(t, db)
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range o.slots {
		p.end(t)
	}
}

// ready waits until the process has a handler for SIGTERM: each program sets it before it connects. A producer has
// nothing left to write, and ends.
func (p *other) ready(t *testing.T, db *pgtest.DB) {
	t.Helper()
	sessions := []string{p.label, fmt.Sprint("psql_worker ", p.cmd.Process.Pid)}
	ready := pgtest.Await(patience, func() bool {
		select {
		case <-p.ended:
			return true
		default:
		}
		return p.name != producer && ask[bool](t, db,
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = ANY ($1))", sessions)
	})
	if !ready {
		t.Errorf("%s has not connected, or not ended\n%s", p.label, p.output.tail())
	}
}

// end waits for a process that ends by itself.
func (p *other) end(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.cmd.Process.Kill()
		t.Errorf("%s does not end", p.label)
		<-p.ended
	}
	p.check(t)
}

// check is for a process that nobody killed.
func (p *other) check(t *testing.T) {
	t.Helper()
	if p.err != nil {
		t.Errorf("%s: %v\n%s", p.name, p.err, p.output.tail())
	}
}

// A lockedBuffer is what all processes of a slot have written.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := strings.Split(b.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
