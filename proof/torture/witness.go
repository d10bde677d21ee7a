//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A witness does work that does not need what a holder has. One unit of its work is written, done by the workers, and
// seen to end.
type witness struct {
	name  string
	table string
	keyed bool // it needs the table's folds
	write func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error)
}

var witnesses = []witness{
	{"jobs", "jobs", false, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		return p.enqueueTasks(ctx, tx, 3, jobs.Insert{})
	}},
	{"jobs of an ordered key", "jobs", true, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		ordered := keyed.Ordered{Key: newKey(), OnFailure: keyed.Skip}
		return p.enqueueTasks(ctx, tx, 2, jobs.Insert{ByKey: ordered})
	}},
	{"jobs of a limited key", "jobs", true, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		return p.enqueueTasks(ctx, tx, 3, jobs.Insert{ByKey: keyed.Limited{Key: newKey(), MaxRunning: 2}})
	}},
	{"a batch", "jobs", true, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		b, err := p.startBatch(ctx, tx, 2, jobs.Insert{})
		return append(b.jobs, b.after...), err
	}},
	{"messages", "outbox", false, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		return p.sendPlain(ctx, tx, outbox.Message{}, outbox.Message{})
	}},
	{"ordered messages", "outbox", true, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		one := outbox.Message{Key: newKey()}
		return p.sendPlain(ctx, tx, one, one)
	}},
	{"a timer", "timers", false, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		return p.setPlain(ctx, tx, 0)
	}},
	{"a message from outside", "inbox", false, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		return p.receivePlain(ctx, tx)
	}},
}

// onlyKey starts keys that have few rows, and only one row while nothing is held.
const onlyKey = "witness "

func newKey() string { return onlyKey + uuid.NewString() }

// plainly returns a payload for a no-op handler.
func plainly(name string) []byte { return fmt.Appendf(nil, `{"mode":%q,"name":%q}`, modePlain, name) }

// job returns the job with a no-op handler.
func job(j jobs.Insert) (jobs.Insert, announced) {
	j.ID = uuid.Must(uuid.NewV7())
	j.Args = Task{modePlain, j.ID.String()}
	return j, announce("jobs", j.ID.String())
}

func (p *producer) enqueueTasks(ctx context.Context, tx pgx.Tx, n int, j jobs.Insert) ([]announced, error) {
	inserts, names := make([]jobs.Insert, n), make([]announced, n)
	for i := range inserts {
		inserts[i], names[i] = job(j)
	}
	_, err := p.domains.jobs.EnqueueMany(ctx, workqueue.Pgx(tx), inserts...)
	return names, err
}

// A writtenBatch is a batch of jobs with the job that runs after them.
type writtenBatch struct {
	id          uuid.UUID
	jobs, after []announced
}

func (p *producer) startBatch(ctx context.Context, tx pgx.Tx, n int, j jobs.Insert) (w writtenBatch, err error) {
	inserts := make([]jobs.Insert, n)
	w.jobs = make([]announced, n)
	for i := range inserts {
		inserts[i], w.jobs[i] = job(j)
	}
	last, name := job(jobs.Insert{})
	w.after = []announced{name}
	started, err := p.domains.jobs.StartBatch(ctx, workqueue.Pgx(tx), jobs.Batch{Jobs: inserts, OnComplete: &last})
	w.id = started.ID
	return w, err
}

// sendPlain writes messages with no-op handlers.
func (p *producer) sendPlain(ctx context.Context, tx pgx.Tx, msgs ...outbox.Message) ([]announced, error) {
	names := make([]announced, len(msgs))
	for i := range msgs {
		id := uuid.Must(uuid.NewV7())
		msgs[i].ID, msgs[i].Topic, msgs[i].Payload = id, topic, plainly(id.String())
		names[i] = announced{written{"outbox", id.String()}, msgs[i].Key}
	}
	_, err := p.domains.outbox.EnqueueMany(ctx, workqueue.Pgx(tx), msgs...)
	return names, err
}

func (p *producer) setPlain(ctx context.Context, tx pgx.Tx, after time.Duration) ([]announced, error) {
	key := newKey()
	_, err := p.domains.timers.Set(ctx, workqueue.Pgx(tx), timers.Timer{Key: key, Topic: topic, Delay: after,
		Payload: plainly(key)})
	return []announced{announce("timers", key)}, err
}

// receivePlain stores a message from outside with a no-op handler.
func (p *producer) receivePlain(ctx context.Context, tx pgx.Tx) ([]announced, error) {
	name := newKey()
	_, err := p.domains.inbox.Receive(ctx, workqueue.Pgx(tx), inbox.Message{
		Consumer: consumer, Source: topic, MessageID: name, Payload: plainly(name), BodyHash: sameHash,
	})
	return []announced{announce("inbox", name)}, err
}

// unit does one unit of a witness's work. It fails if the unit has not ended within the patience.
func (w witness) unit(ctx context.Context, p *producer) error {
	ctx, cancel := context.WithTimeout(ctx, p.lab.options.patience())
	defer cancel()
	var names []announced
	err := p.transactSurely(ctx, func(ctx context.Context, tx pgx.Tx) (_ []announced, err error) {
		names, err = w.write(ctx, p, tx)
		return names, err
	})
	if err != nil {
		return err
	}
	return p.lab.awaitEnded(ctx, p.pool, names)
}

// A lap is the longest time that a unit of each witness took.
type lap map[string]time.Duration

// lapUnits is the minimum number of units of each witness in a lap.
const lapUnits = 4

// lap runs witnesses concurrently, for at least the given time.
func (l *lab) lap(ctx context.Context, pool *pgxpool.Pool, who []witness, random *rand.Rand, least time.Duration) lap {
	longest, mu := lap{}, sync.Mutex{}
	var all sync.WaitGroup
	for _, w := range who {
		p := newProducer(l.shop, pool, random.Uint64())
		all.Go(func() {
			took := w.lap(ctx, p, least)
			mu.Lock()
			defer mu.Unlock()
			longest[w.name] = took
		})
	}
	all.Wait()
	return longest
}

func (w witness) lap(ctx context.Context, p *producer, least time.Duration) (longest time.Duration) {
	start := time.Now()
	for n := 0; n < lapUnits || time.Since(start) < least; n++ {
		began := time.Now()
		err := w.unit(ctx, p)
		longest = max(longest, time.Since(began))
		if err != nil {
			return max(longest, p.lab.options.patience())
		}
	}
	return longest
}

// slower is how many times as long a unit may take as without the holder.
const slower = 5

// slack is what a unit may take in addition: twice the interval at which workers poll for rows that were not announced.
func (o Options) slack() time.Duration { return 2 * o.Poll }

// stalled returns the witnesses that took too long compared with a lap without the holder.
func (a lap) stalled(calm lap, slack time.Duration) (names []string) {
	for _, w := range witnesses {
		if took, ran := a[w.name]; ran && took > slower*calm[w.name]+slack {
			names = append(names, w.name)
		}
	}
	return names
}

// longer returns the longer time of each witness.
func (a lap) longer(b lap) lap {
	most := lap{}
	for name := range a {
		most[name] = max(a[name], b[name])
	}
	return most
}

// found is the SQL condition that finds rows by name.
var found = map[string]string{
	"outbox": "id = ANY ($1::text[]::uuid[])",
	"jobs":   "id = ANY ($1::text[]::uuid[])",
	"timers": `"key" = ANY ($1::text[])`,
	"inbox":  "consumer = '" + consumer + "' AND source = '" + topic + "' AND message_id = ANY ($1::text[])",
}

// awaitEnded waits until rows have ended.
func (l *lab) awaitEnded(ctx context.Context, pool *pgxpool.Pool, rows []announced) error {
	tables := map[string][]string{}
	for _, r := range rows {
		tables[r.table] = append(tables[r.table], r.name)
	}
	for table, names := range tables {
		query := fmt.Sprintf("SELECT count(completed_at) FROM %s.%s WHERE %s", l.schema, table, found[table])
		for ended := 0; ; time.Sleep(endedEvery) {
			err := pool.QueryRow(ctx, query, names).Scan(&ended)
			if err == nil && ended >= len(names) {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%d of %d rows of %s have ended", ended, len(names), table)
			}
		}
	}
	return nil
}

const endedEvery = 5 * time.Millisecond
