package costs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/periodic"
)

// rowsCompared is how many rows the nodes of one plan may read, join and discard for each element of its arrays. A
// statement whose plan joins two arrays of n elements by loops has n² of them. Measured: up to 23.
const rowsCompared = 60

// fewElements is a number of elements with which no plan is judged.
const fewElements = 5

// A generic is a schema whose statements all have generic plans, which assume that an array has ten elements, and which
// the server reports: auto_explain sees also those inside functions and triggers.
type generic struct {
	*testing.T
	pool *pgxpool.Pool
	n    int // elements of the arrays
	tx   pgx.Tx

	outbox *outbox.Outbox
	inbox  *inbox.Inbox
	timers *timers.Timers
	jobs   *jobs.Client

	mu    sync.Mutex
	plans []explained
	seen  map[string]bool // the statements that were planned, in one line
}

// explained is a plan as auto_explain reports it.
type explained struct {
	Query string `json:"Query Text"`
	Plan  genericPlan
}

type genericPlan struct {
	Node         string  `json:"Node Type"`
	Relation     string  `json:"Relation Name"`
	Rows         float64 `json:"Actual Rows"`
	Loops        float64 `json:"Actual Loops"`
	Filter       string
	Filtered     float64 `json:"Rows Removed by Filter"`
	JoinFiltered float64 `json:"Rows Removed by Join Filter"`
	Rechecked    float64 `json:"Rows Removed by Index Recheck"`
	Plans        []genericPlan
}

// compared counts the rows that the nodes of a plan have returned and discarded.
func (p genericPlan) compared() float64 {
	n := (p.Rows + p.Filtered + p.JoinFiltered + p.Rechecked) * p.Loops
	for _, part := range p.Plans {
		n += part.compared()
	}
	return n
}

func (p genericPlan) String() string {
	var b strings.Builder
	p.write(&b, "\t")
	return b.String()
}

func (p genericPlan) write(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s %s: %v rows × %v, discarded %v and %v\n", indent, p.Node, p.Relation, p.Rows, p.Loops,
		p.Filtered, p.JoinFiltered)
	for _, part := range p.Plans {
		part.write(b, indent+"\t")
	}
}

func newGeneric(t *testing.T, n, others int) *generic {
	t.Helper()
	g := &generic{T: t, n: n, seen: map[string]bool{}}
	db := pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { g.note(notice.Message) }
	}))
	g.pool = db.Pool
	m, err := migrations.New(pgtest.NewPool(t, db), migrations.Options{Schema: db.Schema,
		Logger: slog.New(slog.DiscardHandler)})
	g.ok(err)
	_, err = m.Up(t.Context())
	g.ok(err)
	schema := db.Schema
	g.outbox, err = outbox.Open(outbox.Options{Schema: schema, Ordering: outbox.PerKey})
	g.ok(err)
	g.inbox, err = inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour})
	g.ok(err)
	g.timers, err = timers.Open(timers.Options{Schema: schema})
	g.ok(err)
	g.jobs, err = jobs.Open(jobs.Options{Schema: schema})
	g.ok(err)
	g.fill(others)
	return g
}

// fill gives each table other rows, which are analysed.
func (g *generic) fill(others int) {
	g.Helper()
	for table, columns := range map[string]string{
		"outbox": "(topic, payload, dedup_key) SELECT 'other', '', 'other/' || i",
		"inbox":  "(consumer, source, message_id, topic, payload) SELECT 'other', 's', i::text, 't', ''",
		"timers": "(key, topic, payload, fire_at, generation) SELECT 'other/' || i, 't', '', now(), 1",
		"jobs":   "(kind, queue, priority, args, unique_key) SELECT 'other', 'other', 2, '{}', 'u:other' || chr(31) || i",
	} {
		if others > 0 {
			_, err := g.pool.Exec(g.Context(), "INSERT INTO "+table+" "+columns+
				" FROM generate_series(1, $1::int) AS i", others)
			g.ok(err)
		}
		_, err := g.pool.Exec(g.Context(), "ANALYZE "+table)
		g.ok(err)
	}
}

func (g *generic) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *generic) note(message string) {
	_, text, found := strings.Cut(message, "plan:")
	if !found {
		return
	}
	var e explained
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		g.Errorf("auto_explain: %v in %.200s", err, text)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.plans = append(g.plans, e)
	g.seen[oneLine(e.Query)] = true
}

// in runs steps in one transaction, which is rolled back.
func (g *generic) in(steps func()) {
	g.Helper()
	tx, err := g.pool.Begin(g.Context())
	g.ok(err)
	defer tx.Rollback(context.WithoutCancel(g.Context()))
	for _, set := range []string{"LOAD 'auto_explain'", "SET LOCAL auto_explain.log_min_duration = 0",
		"SET LOCAL auto_explain.log_analyze = on", "SET LOCAL auto_explain.log_timing = off",
		"SET LOCAL auto_explain.log_nested_statements = on", "SET LOCAL auto_explain.log_format = json",
		"SET LOCAL auto_explain.log_level = notice", "SET LOCAL client_min_messages = notice",
		"SET LOCAL plan_cache_mode = force_generic_plan"} {
		_, err := tx.Exec(g.Context(), set)
		g.ok(err)
	}
	g.tx = tx
	steps()
}

// step runs a call with n elements, and checks the plans of its statements.
func (g *generic) step(name string, call func(ctx context.Context, tx workqueue.Tx) error) {
	g.Helper()
	g.plans = nil
	if err := call(g.Context(), workqueue.Pgx(g.tx)); err != nil {
		g.Fatalf("%s: %v", name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.plans) == 0 {
		g.Errorf("%s: no plan was reported", name)
	}
	most := 0.0
	for _, e := range g.plans {
		n := e.Plan.compared()
		most = max(most, n)
		if g.n > fewElements && n > rowsCompared*float64(g.n) {
			g.Errorf("%s: %v rows for %d elements: %.300s\n%v", name, n, g.n, e.Query, e.Plan)
		}
	}
	g.Logf("%s: %.1f rows for each element, %d plans", name, most/float64(g.n), len(g.plans))
}

// sql is a step that is one statement.
func (g *generic) sql(name, statement string, args ...any) {
	g.Helper()
	g.step(name, func(ctx context.Context, _ workqueue.Tx) error {
		_, err := g.tx.Exec(ctx, statement, args...)
		return err
	})
}

// A unique is a job whose key is replaced.
type unique struct {
	N int `json:"n"`
}

func (unique) Kind() string { return "unique" }

// No statement compares each of its elements with each other one, or with each row of its table, when PostgreSQL uses a
// generic plan. Rows that are compared in vain are counted by EXPLAIN, for tables of any size.
func TestGenericPlansCompareFewRows(t *testing.T) {
	n := pgtest.Size(500, 2_000)
	for _, others := range []int{0, pgtest.Size(5_000, 20_000)} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			g := newGeneric(t, n, others)
			for _, domain := range []struct {
				name  string
				steps func(*generic)
			}{{"outbox", (*generic).outboxSteps}, {"inbox", (*generic).inboxSteps}, {"timers", (*generic).timersSteps},
				{"jobs", (*generic).jobsSteps}} {
				if !t.Run(domain.name, func(t *testing.T) {
					g.T = t
					if others == 0 { // the plans are then kept from the time when the tables were empty
						g.n = fewElements
						g.in(func() { domain.steps(g) })
						g.n = n
					}
					g.in(func() { domain.steps(g) })
				}) {
					return
				}
			}
			g.checkAllPlanned(t)
		})
	}
}

func (g *generic) outboxSteps() {
	enqueue := func(m func(i int) outbox.Message) func(context.Context, workqueue.Tx) error {
		return func(ctx context.Context, tx workqueue.Tx) error {
			list := make([]outbox.Message, g.n)
			for i := range list {
				list[i] = m(i)
			}
			_, err := g.outbox.EnqueueMany(ctx, tx, list...)
			return err
		}
	}
	deduped := enqueue(func(i int) outbox.Message { return outbox.Message{Topic: "t", DedupKey: fmt.Sprint(i)} })
	g.step("enqueue", deduped)
	g.step("enqueue duplicates", deduped)
	few := func(i int) outbox.Message { return outbox.Message{Topic: "k", Key: fmt.Sprint(i % 100)} }
	g.step("enqueue ordered", enqueue(few))
	g.step("enqueue behind them", enqueue(few))
	g.settles("outbox", "topic = 't'")
	g.step("join", func(ctx context.Context, tx workqueue.Tx) error {
		j := outbox.Join{OnComplete: &outbox.Message{Topic: "end"}}
		for range g.n - 2 {
			j.Steps = append(j.Steps, outbox.Message{Topic: "step"})
		}
		_, err := g.outbox.StartJoin(ctx, tx, j)
		return err
	})
	g.sql("join in SQL", fmt.Sprintf(`SELECT id FROM outbox_start_join((SELECT jsonb_agg(jsonb_build_object('topic', 'step',
		'payload', 1)) FROM generate_series(1, %d)), '{"topic": "end", "payload": 1}')`, g.n-2))
	g.step("add to a join", func(ctx context.Context, tx workqueue.Tx) error {
		first, err := g.outbox.EnqueueMany(ctx, tx, outbox.Message{Topic: "first"}, outbox.Message{Topic: "last"})
		if err != nil {
			return err
		}
		ids, err := g.outbox.Joins().Start(ctx, tx, join.Join{Members: []uuid.UUID{first[0].ID}})
		if err != nil {
			return err
		}
		return g.outbox.Joins().Add(ctx, tx, ids[0], g.ids("outbox", "topic = 't' AND status = 0 LIMIT 1000")...)
	})
	g.sql("cancel steps", "UPDATE outbox SET status = 3, attempts = 1, completed_at = now(), failed_at = now(), "+
		"cancelled_at = now() WHERE topic = 'step'")
	g.sql("fold", "SELECT outbox_key_fold(10000), outbox_join_fold(10000)")
	g.sql("recount", "SELECT outbox_join_recount(ARRAY(SELECT id FROM outbox_join))")
	g.sql("sweep", "SELECT outbox_join_sweep(1000)")
	g.step("unblock", func(ctx context.Context, tx workqueue.Tx) error {
		_, err := g.outbox.Unblock(ctx, tx, g.ids("outbox", "topic = 't'")...)
		return err
	})
}

// ids returns the ids of rows.
func (g *generic) ids(table, condition string) []uuid.UUID {
	g.Helper()
	rows, err := g.tx.Query(g.Context(), "SELECT id FROM "+table+" WHERE "+condition)
	g.ok(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	g.ok(err)
	return ids
}

// settles goes through the functions that claim and settle.
func (g *generic) settles(table, some string) {
	token := workqueue.NewOwnerToken()
	var ids []uuid.UUID
	read := func(condition string) {
		g.Helper()
		if ids = g.ids(table, condition); len(ids) < g.n {
			g.Fatalf("%s: %d rows are %s, want %d", table, len(ids), condition, g.n)
		}
	}
	claim := func() {
		g.Helper()
		_, err := g.tx.Exec(g.Context(), "UPDATE "+table+" SET status = 1, attempts = 1, completed_at = NULL, "+
			"failed_at = NULL, cancelled_at = NULL, locked_until = now() + interval '1 hour', owner_token = $1 WHERE "+some, token)
		g.ok(err)
		read("owner_token = '" + token.String() + "'")
	}
	for _, settle := range []struct{ name, statement string }{
		{"extend", "SELECT count(*) FROM %s_extend($1, $2, '30 s')"},
		{"retry", "SELECT count(*) FROM %s_retry($1, $2)"},
		{"fail", "SELECT count(*) FROM %s_fail($1, $2, 'e')"},
		{"snooze", "SELECT count(*) FROM %s_snooze($1, $2, '1 s')"},
		{"release", "SELECT count(*) FROM %s_release($1, $2)"},
		{"ack", "SELECT count(*) FROM %s_ack($1, $2)"},
		{"ack of rows and others", "SELECT count(*) FROM %s_ack($1, ($2::uuid[])[2:] || gen_random_uuid())"},
		{"settle", "SELECT count(*) FROM %s_settle((SELECT jsonb_agg(jsonb_build_object('id', u.id, 'token', $1::uuid, " +
			"'outcome', 'ack')) FROM unnest($2::uuid[]) AS u (id)))"},
	} {
		claim()
		g.sql(table+" "+settle.name, fmt.Sprintf(settle.statement, table), token, ids)
	}
	q := map[string]*workqueue.Table{"outbox": g.outbox.Table(), "inbox": g.inbox.Table(), "timers": g.timers.Table(),
		"jobs": g.jobs.Table()}[table]
	for name, settle := range map[string]func(context.Context, *workqueue.Queue) ([]uuid.UUID, error){
		"Ack": func(ctx context.Context, q *workqueue.Queue) ([]uuid.UUID, error) { return q.Ack(ctx, token, ids) },
		"Retry": func(ctx context.Context, q *workqueue.Queue) ([]uuid.UUID, error) {
			return q.Retry(ctx, token, ids, "e")
		},
		"Fail": func(ctx context.Context, q *workqueue.Queue) ([]uuid.UUID, error) {
			return q.Fail(ctx, token, ids, "e")
		},
		"Snooze": func(ctx context.Context, q *workqueue.Queue) ([]uuid.UUID, error) {
			return q.Snooze(ctx, token, ids, time.Minute)
		},
		"Extend": func(ctx context.Context, q *workqueue.Queue) ([]uuid.UUID, error) {
			return q.Extend(ctx, token, ids, time.Minute)
		},
	} {
		claim()
		g.step(table+" "+name, func(ctx context.Context, tx workqueue.Tx) error {
			changed, err := settle(ctx, q.In(tx))
			if err == nil && len(changed) != len(ids) {
				err = fmt.Errorf("%d rows were changed, want %d", len(changed), len(ids))
			}
			return err
		})
	}
	g.step(table+" settle lost rows", func(ctx context.Context, tx workqueue.Tx) error {
		_, err := q.In(tx).Ack(ctx, uuid.New(), ids)
		if !errors.Is(err, workqueue.ErrLeaseLost) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	claim()
	_, err := g.tx.Exec(g.Context(), "UPDATE "+table+" SET locked_until = now() - interval '1 hour' WHERE "+some)
	g.ok(err)
	g.sql(table+" reap", "SELECT * FROM "+table+"_reap_expired($1)", g.n)
	_, err = g.tx.Exec(g.Context(), "UPDATE "+table+" SET due_at = now() WHERE "+some)
	g.ok(err)
	read(some)
	g.step(table+" cancel", func(ctx context.Context, tx workqueue.Tx) error {
		_, err := q.In(tx).Cancel(ctx, ids, "reason")
		return err
	})
	g.step(table+" redrive", func(ctx context.Context, tx workqueue.Tx) error {
		_, err := q.In(tx).Redrive(ctx, ids, "somebody")
		return err
	})
	for _, call := range []string{"reschedule($1, now() + interval '1 day')", "run_now($1)", "cancel($1, 'why')",
		"redrive($1)", "cancel($1, 'why')", "discard($1, 'why')", "delete($1)"} {
		g.sql(table+" "+call, "SELECT * FROM "+table+"_"+call, ids)
	}
}

func (g *generic) inboxSteps() {
	receive := func(ctx context.Context, tx workqueue.Tx) error {
		list := make([]inbox.Message, g.n)
		for i := range list {
			list[i] = inbox.Message{Consumer: "c", Source: "s", MessageID: fmt.Sprint(i), Topic: "t"}
		}
		_, err := g.inbox.ReceiveMany(ctx, tx, list...)
		return err
	}
	g.step("receive", receive)
	g.step("receive duplicates", receive)
	g.settles("inbox", "consumer = 'c'")
}

func (g *generic) timersSteps() {
	keys := make([]string, g.n)
	set := func(ctx context.Context, tx workqueue.Tx) error {
		list := make([]timers.Timer, g.n)
		for i := range list {
			keys[i] = fmt.Sprint(i)
			list[i] = timers.Timer{Key: keys[i], Topic: "mine"}
		}
		_, err := g.timers.SetMany(ctx, tx, list...)
		return err
	}
	g.step("set", set)
	g.step("set again", set)
	g.settles("timers", "topic = 'mine'")
	g.step("cancel by key", func(ctx context.Context, tx workqueue.Tx) error {
		_, err := g.timers.Cancel(ctx, tx, keys...)
		return err
	})
	g.step("preview a backfill", func(ctx context.Context, tx workqueue.Tx) error {
		s := g.timers.Schedules()
		put := s.Put(ctx, tx, timers.Schedule{Name: "often", Expr: "@every 1s", Topic: "mine"})
		_, err := s.PreviewBackfill(ctx, tx, "often", backfilled, backfilled.Add(g.occurrences()))
		return errors.Join(put, err)
	})
}

var backfilled = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// occurrences is how long a schedule of every second takes for n elements, or for as many as one backfill may have.
func (g *generic) occurrences() time.Duration {
	return time.Duration(min(g.n, periodic.MaxBackfill)-1) * time.Second
}

func (g *generic) jobsSteps() {
	enqueue := func(o func(i int) jobs.Insert) func(context.Context, workqueue.Tx) error {
		return func(ctx context.Context, tx workqueue.Tx) error {
			list := make([]jobs.Insert, g.n)
			for i := range list {
				list[i] = o(i)
				list[i].Args = unique{i}
			}
			_, err := g.jobs.EnqueueMany(ctx, tx, list...)
			return err
		}
	}
	conflict := func(c jobs.Conflict) func(i int) jobs.Insert {
		return func(i int) jobs.Insert {
			return jobs.Insert{Queue: "mine", Unique: &jobs.Unique{Key: fmt.Sprint(i), OnConflict: c}}
		}
	}
	g.step("enqueue", enqueue(conflict(jobs.Keep)))
	g.step("keep", enqueue(conflict(jobs.Keep)))
	g.step("replace", enqueue(conflict(jobs.Replace)))
	g.settles("jobs", "queue = 'mine'")
	g.step("preview a backfill", func(ctx context.Context, tx workqueue.Tx) error {
		s := g.jobs.Schedules()
		put := s.Put(ctx, tx, jobs.Schedule{Name: "often", Expr: "@every 1s", Args: unique{}})
		_, err := s.PreviewBackfill(ctx, tx, "often", backfilled, backfilled.Add(g.occurrences()))
		return errors.Join(put, err)
	})
	g.step("limit", func(ctx context.Context, tx workqueue.Tx) error {
		return g.jobs.SetLimits(ctx, tx, "mine", jobs.Limits{MaxRunning: 100_000})
	})
	limited := func(i int) jobs.Insert {
		return jobs.Insert{ByKey: keyed.Limited{Key: fmt.Sprint(i % 100), MaxRunning: 2}}
	}
	g.step("enqueue limited", enqueue(limited))
	g.step("enqueue behind them", enqueue(limited))
	g.step("batch", func(ctx context.Context, tx workqueue.Tx) error {
		b := jobs.Batch{OnComplete: &jobs.Insert{Args: unique{}}}
		for i := range g.n - 2 {
			b.Jobs = append(b.Jobs, jobs.Insert{Args: unique{i}})
		}
		started, err := g.jobs.StartBatch(ctx, tx, b)
		if err != nil {
			return err
		}
		_, err = g.jobs.CancelBatch(ctx, tx, started.ID, "reason")
		return err
	})
	var workflow uuid.UUID
	g.step("workflow", func(ctx context.Context, tx workqueue.Tx) error {
		w := jobs.NewWorkflow("w")
		root := w.Task("root", jobs.Insert{Args: unique{}, Queue: "root"})
		for i := range g.n - 2 {
			w.Task(fmt.Sprint(i), jobs.Insert{Args: unique{i}}, jobs.After(root))
		}
		started, err := g.jobs.StartWorkflow(ctx, tx, w)
		workflow = started.ID
		return err
	})
	g.step("read a workflow", func(ctx context.Context, tx workqueue.Tx) error {
		w, err := g.jobs.Workflow(ctx, tx, workflow)
		if err == nil && len(w.Tasks) != g.n-1 {
			err = fmt.Errorf("%d tasks were read", len(w.Tasks))
		}
		return err
	})
	g.sql("complete the root", "UPDATE jobs SET status = 2, attempts = 1, completed_at = now() WHERE queue = 'root'")
	g.sql("fold", "SELECT jobs_key_fold(10000), jobs_join_fold(10000)")
	g.sql("recount", "SELECT jobs_join_recount(ARRAY(SELECT id FROM jobs_join))")
	g.sql("sweep", "SELECT jobs_join_sweep(10000)")
	g.sql("forget", "SELECT jobs_join_forget(ARRAY(SELECT id FROM jobs_join WHERE status <> 0), 100000)")
	const (
		mine  = "ARRAY(SELECT id FROM jobs WHERE queue = 'mine')"
		each  = "generate_series(1, cardinality(" + mine + "))"
		token = "'00000000-002a-8000-8000-000000000000'"
	)
	g.sql("limits", "UPDATE jobs_queue SET max_running = 100000, rate = 1000, burst = 100000 WHERE name = 'mine'")
	g.sql("take", "SELECT jobs_take('mine', "+token+", "+mine+", ARRAY(SELECT "+each+")::int[], "+
		"ARRAY(SELECT extract(epoch FROM now())::bigint * 1000000 + i * 1000 FROM "+each+" AS i))")
	g.sql("starts", "SELECT jobs_starts('mine', 64)")
	g.sql("give starts back", "SELECT jobs_give_start('mine', "+token+", "+mine+")")
}
