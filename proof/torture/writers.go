//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
)

// writers write one row in each transaction into two of the tables, from several sessions, at a rate at which
// announcers wake up. Between two bursts they rest until all announcers sleep. A few transactions stay open after their
// insert, into the rest and beyond. All other writers pause, see inQuiet.
type writers struct {
	*holding
	tables  []string
	stop    context.CancelFunc // ends the burst; nil if there is none
	bursts  sync.WaitGroup
	late    sync.WaitGroup // transactions that stay open
	written atomic.Int64
	failed  atomic.Pointer[error]
}

const (
	writerCount = 8
	writerPause = 20 * time.Millisecond // on average
	lateOneIn   = 40
	lateFor     = 3 * time.Second // how long a transaction stays open at most
	lateRoom    = 40
)

// wakeLimit is how long an announcer may take to wake up in a burst, and fadeLimit to fall asleep after it. Neither is
// judged, since a machine may be too slow for a burst.
const (
	wakeLimit = 10 * time.Second
	fadeLimit = 30 * time.Second
)

// writable are functions that write rows with no-op handlers, by table. Rows with their own key wait for a note to be
// folded.
var writable = map[string][]func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error){
	"jobs": {
		func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
			return p.enqueueTasks(ctx, tx, 1, jobs.Insert{})
		},
		func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
			return p.enqueueTasks(ctx, tx, 1, jobs.Insert{Delay: p.delay()})
		},
	},
	"outbox": {
		func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
			return p.sendPlain(ctx, tx, outbox.Message{})
		},
		func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
			return p.sendPlain(ctx, tx, outbox.Message{Key: newKey()})
		},
	},
	"timers": {
		func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
			return p.setPlain(ctx, tx, p.delay())
		},
	},
	"inbox": {
		func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) { return p.receivePlain(ctx, tx) },
	},
}

// folding are the tables with notes.
var folding = []string{"jobs", "outbox"}

// inBursts starts writers that connect to the given URL, calls do, which runs bursts, and waits until all rows have
// ended. The strike is skipped if the machine is too slow for an announcer to wake up.
func (l *lab) inBursts(ctx context.Context, random *rand.Rand, url string, do func(*writers) error) error {
	pool, err := l.openURL(ctx, url, "writers", writerCount+lateRoom, nil, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	w := &writers{holding: &holding{lab: l, random: random, pool: pool}, tables: slices.Clone(folding)}
	random.Shuffle(len(folding), func(i, j int) { w.tables[i], w.tables[j] = w.tables[j], w.tables[i] })
	others := []string{w.tables[1], "inbox", "timers"}
	w.tables[1] = others[random.IntN(len(others))]
	if err := w.awaitQuiet(ctx); err != nil {
		return err
	}
	if err = l.awaitAsleep(ctx); err == nil {
		err = do(w)
	}
	ended := w.end(ctx)
	if errors.Is(err, errNobodyWakes) && ended == nil {
		return skip("%v", err)
	}
	return errors.Join(err, ended)
}

// burst starts a burst, which lasts until lull.
func (w *writers) burst(ctx context.Context) {
	if w.stop != nil {
		return
	}
	ctx, w.stop = context.WithCancel(ctx)
	for range writerCount {
		p := newProducer(w.shop, w.pool, w.random.Uint64())
		w.bursts.Go(func() {
			for ctx.Err() == nil {
				w.writeOne(ctx, p)
				time.Sleep(rand.N(2 * writerPause))
			}
		})
	}
}

func (w *writers) writeOne(ctx context.Context, p *producer) {
	rows := writable[w.tables[p.random.IntN(len(w.tables))]]
	row := rows[p.random.IntN(len(rows))]
	if p.random.IntN(lateOneIn) > 0 {
		w.commit(ctx, p, row, 0)
		return
	}
	own, open := newProducer(w.shop, w.pool, p.random.Uint64()), time.Duration(p.random.Int64N(int64(lateFor)))
	w.late.Go(func() { w.commit(ctx, own, row, open) })
}

// commit writes a row in a transaction that stays open for a while, even after the end of the burst.
func (w *writers) commit(ctx context.Context, p *producer, row func(context.Context, *producer, pgx.Tx) ([]announced,
	error), open time.Duration) {
	err := p.transactSurely(context.WithoutCancel(ctx), func(ctx context.Context, tx pgx.Tx) ([]announced, error) {
		names, err := row(ctx, p, tx)
		if err == nil {
			time.Sleep(open)
		}
		return names, err
	})
	if err != nil {
		w.failed.CompareAndSwap(nil, &err)
		return
	}
	w.written.Add(1)
}

// lull ends a burst.
func (w *writers) lull() {
	if w.stop != nil {
		w.stop()
		w.bursts.Wait()
		w.stop = nil
	}
}

// end waits until all rows have ended.
func (w *writers) end(ctx context.Context) error {
	w.lull()
	w.late.Wait()
	err := w.awaitDue(ctx, time.Now())
	if err != nil && ctx.Err() == nil {
		w.fail("%s after a burst: %v", progress, err)
	}
	if failed := w.failed.Load(); failed != nil {
		return fmt.Errorf("writing: %w", *failed)
	}
	return nil
}

// An awake is an announcer that is awake.
type awake struct {
	table, app string
	pid        int
}

// awake asks the server which announcers there are.
func (l *lab) awake(ctx context.Context) (all []awake, err error) {
	var tables []string
	for _, t := range auditedTables(l.schema) {
		tables = append(tables, t.Table)
	}
	rows, err := l.admin.Query(ctx, `
		SELECT t.name, a.application_name, a.pid
		FROM unnest($1::text[]) AS t (name)
		CROSS JOIN hashtextextended($2 || '.' || t.name || ' announcer', 0) AS k (lock)
		JOIN pg_locks AS l ON l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid AND l.objsubid = 1
		JOIN pg_stat_activity AS a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock' AND a.datname = current_database()`, tables, l.schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a awake, err error) {
		err = row.Scan(&a.table, &a.app, &a.pid)
		return a, err
	})
}

var errNobodyWakes = errors.New("no announcer wakes up")

// awaitAwake returns the first awake announcer that meets a condition.
func (l *lab) awaitAwake(ctx context.Context, is func(awake) bool) (awake, error) {
	for end := time.Now().Add(wakeLimit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(retryBase) {
		all, err := l.awake(ctx)
		if err != nil {
			continue // the run's own session may have ended
		}
		for _, a := range all {
			if is == nil || is(a) {
				return a, nil
			}
		}
	}
	return awake{}, errors.Join(ctx.Err(), errNobodyWakes)
}

// awaitAsleep returns when no announcer is awake.
func (l *lab) awaitAsleep(ctx context.Context) error {
	for end := time.Now().Add(fadeLimit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(retryBase) {
		if all, err := l.awake(ctx); err == nil && len(all) == 0 {
			return nil
		}
	}
	return errors.Join(ctx.Err(), errors.New("an announcer does not fall asleep"))
}
