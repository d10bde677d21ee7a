package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// slowly is a rate that gives no second start during a test.
const slowly = 1e-7

// What a worker leaves to others because it does not know its kind has not started: others get all that the rate
// allows, and not a start more. A job that SQL has claimed has started, however that ends.
func TestWhatIsLeftTakesNothingOfARate(t *testing.T) {
	t.Parallel()
	const burst, crowd = 5, 40
	for name, rule := range map[string]struct {
		queue jobs.Limits
		key   keyed.Rule
	}{
		"of a queue": {queue: jobs.Limits{Rate: slowly, Burst: burst, MaxRunning: 50}},
		"of a key":   {key: keyed.Limited{Key: "k", Rate: slowly, Burst: burst, MaxRunning: 50}},
	} {
		for way, workers := range map[string]int{"one worker": 1, "two workers": 2} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				f := newJobs(t, anyKind)
				if rule.queue != (jobs.Limits{}) {
					f.limit("default", rule.queue)
				}
				options := jobs.Insert{ByKey: rule.key, Retry: hour}
				bySQL := f.enqueue(mail{To: "SQL"}, options).ID
				inserts := make([]jobs.Insert, crowd)
				for i := range inserts {
					inserts[i] = options
					inserts[i].Args = report{Month: i}
				}
				f.many(inserts...)
				for range 2 * burst {
					f.enqueue(mail{}, options)
				}
				f.exec(f.named("CALL %_fold()"))
				token := workqueue.NewOwnerToken()
				equal(t, "claimed by SQL", ask[uuid.UUID](f,
					f.named("SELECT id FROM %_fetch($1, '60 s', 1) WHERE entry = 'row'"), token), bySQL)
				f.exec(f.named("SELECT %_retry($1, ARRAY[$2::uuid])"), token, bySQL)

				var mu sync.Mutex
				var started []string
				jobs.Register(f.kinds, func(_ context.Context, j *jobs.Job[mail]) error {
					mu.Lock()
					defer mu.Unlock()
					started = append(started, j.Args.To)
					return nil
				}, jobs.KindOptions[mail]{})
				for range workers {
					f.work(jobs.WorkerOptions{Unknown: jobs.LeaveUnknown})
				}
				done := func() int { return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2") }
				f.until("all that may start have", func() bool { return done() == burst-1 })
				f.until("all others are left", func() bool {
					return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE kind = 'report' AND last_error IS NULL") == 0
				})
				f.settled()
				equal(t, "done", done(), burst-1)
				mu.Lock()
				defer mu.Unlock()
				equal(t, "started", fmt.Sprint(started), fmt.Sprint(slices.Repeat([]string{""}, burst-1)))
				equal(t, "attempts of those that were left",
					ask[int](f, "SELECT max(attempts) FROM "+f.table+" WHERE kind = 'report' AND status = 0"), 0)
			})
		}
	}
}

// settled waits until nothing is in progress, and a fold and a claim that come after that find nothing to start.
func (f *fixture) settled() {
	f.Helper()
	f.until("nothing is in progress", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 1") == 0
	})
	f.exec(f.named("CALL %_fold()"))
	equal(f, "claimed after all", ask[int](f, f.named("SELECT count(*) FROM "+
		"%_fetch('00000000-002a-8000-8000-000000000000', '60 s', 10) "+
		"WHERE kind = 'mail'")), 0)
}

// Starts of a queue are given back by what is put back, in the transaction that puts it back, and to one claim.
func TestStartsOfAQueueAreGivenBackOnce(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 4})
	for range 20 {
		f.enqueue(mail{})
	}
	q := f.client.Table().On(f.Pool)
	claim := func(q *workqueue.Queue) (token uuid.UUID, ids []uuid.UUID) {
		token = workqueue.NewOwnerToken()
		rows, err := q.Claim(f.Context(), token, time.Minute, 10, "default", int16(2))
		f.ok(err)
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		return token, ids
	}
	token, ids := claim(q)
	equal(t, "claimed", len(ids), 4)
	admitted := func() int { n, _ := f.admit(); return n }
	equal(t, "admitted when all starts are taken", admitted(), 0)

	f.ok(rolledBack(f, func(tx pgx.Tx) error {
		_, err := f.client.Table().In(workqueue.Pgx(tx)).Release(f.Context(), token, ids)
		return err
	}))
	equal(t, "admitted after a release that was rolled back", admitted(), 0)
	released, err := q.Release(f.Context(), token, ids[:3])
	f.ok(err)
	equal(t, "released", len(released), 3)
	equal(t, "admitted", admitted(), 3)
	if _, err = q.Release(f.Context(), token, ids[:3]); err != nil {
		t.Errorf("a release that is repeated, because its reply was lost: %v", err)
	}
	equal(t, "admitted after the same release", admitted(), 3)
	f.ok(rolledBack(f, func(tx pgx.Tx) error {
		_, ids := claim(f.client.Table().In(workqueue.Pgx(tx)))
		equal(t, "claimed by a claim that is rolled back", len(ids), 3)
		return nil
	}))
	token, again := claim(q)
	equal(t, "claimed again", len(again), 3)
	equal(t, "admitted to another", admitted(), 0)

	// A snooze is the answer of a handler, which has run.
	_, err = q.Snooze(f.Context(), token, again[:1], time.Hour)
	f.ok(err)
	_, err = q.Abandon(f.Context(), token, again[1:2], time.Hour, "failed")
	f.ok(err)
	equal(t, "admitted after attempts", admitted(), 0)
	// Nobody knows whether a job whose lease is lost had started.
	f.exec("UPDATE " + f.table + " SET locked_until = now() - interval '1 s' WHERE status = 1")
	f.exec(f.named("SELECT %_reap_expired()"))
	equal(t, "admitted after lost leases", admitted(), 0)
}

// What is given back never makes more than the burst.
func TestStartsThatAreGivenBackDoNotPileUp(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 4})
	for range 20 {
		f.enqueue(mail{})
	}
	q := f.client.Table().On(f.Pool)
	token := workqueue.NewOwnerToken()
	rows, err := q.Claim(f.Context(), token, time.Minute, 10, "default", int16(2))
	f.ok(err)
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	_, err = q.Release(f.Context(), token, ids)
	f.ok(err)
	n, _ := f.admit()
	equal(t, "admitted", n, 4)
	f.claimAdmitted(4)
	n, _ = f.admit()
	equal(t, "admitted then", n, 0)
}

// rolledBack runs work in a transaction that is rolled back.
func rolledBack(f *fixture, work func(tx pgx.Tx) error) error {
	tx, err := f.Pool.Begin(f.Context())
	if err != nil {
		return err
	}
	defer tx.Rollback(context.Background())
	return work(tx)
}

// Figures count what has started. A job that is left counts as settled, by a release.
func TestFiguresCountStarts(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	f := newJobs(t, anyKind, func(o *jobs.Options) {
		o.Telemetry.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	})
	jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{})
	f.many(jobs.Insert{Args: report{}}, jobs.Insert{Args: report{}}, jobs.Insert{Args: mail{}})
	stop := f.work(jobs.WorkerOptions{Unknown: jobs.LeaveUnknown})
	f.until("all are settled", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2 OR last_error IS NOT NULL") == 3
	})
	stop()
	var all metricdata.ResourceMetrics
	f.ok(reader.Collect(t.Context(), &all))
	got := map[string]int64{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					kind, _ := p.Attributes.Value("txwork.kind")
					got[m.Name+" "+kind.AsString()] += int64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					kind, _ := p.Attributes.Value("txwork.kind")
					outcome, _ := p.Attributes.Value("txwork.outcome")
					got[m.Name+" "+kind.AsString()+" "+outcome.AsString()] += p.Value
				}
			}
		}
	}
	for name, want := range map[string]int64{
		"messaging.process.duration mail": 1, "messaging.process.duration report": 0,
		"txwork.start.delay mail": 1, "txwork.start.delay report": 0,
		"txwork.settled mail ack": 1, "txwork.settled report release": 2, "txwork.settled report snooze": 0,
		"messaging.client.consumed.messages report ": 2,
	} {
		equal(t, name, got[name], want)
	}
}
