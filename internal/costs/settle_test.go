package costs_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// settleTables are the tables whose settles are measured, with what writes rows into them.
var settleTables = map[string]func(l *lab) (table *workqueue.Table, insert func(n int)){
	"outbox":      func(l *lab) (*workqueue.Table, func(int)) { return l.outboxRows(false) },
	"outbox keys": func(l *lab) (*workqueue.Table, func(int)) { return l.outboxRows(true) },
	"jobs":        func(l *lab) (*workqueue.Table, func(int)) { return l.jobRows(nil) },
	"unique jobs": func(l *lab) (*workqueue.Table, func(int)) {
		return l.jobRows(func(key string) *jobs.Unique { return &jobs.Unique{Key: key} })
	},
}

func (l *lab) outboxRows(keys bool) (*workqueue.Table, func(int)) {
	l.Helper()
	box, err := outbox.Open(outbox.Options{Schema: "public", Ordering: outbox.PerKey})
	l.ok(err)
	up, _, err := box.DDL()
	l.ok(err)
	l.exec(up)
	return box.Table(), func(n int) {
		l.Helper()
		messages := slices.Repeat([]outbox.Message{{Topic: "t", Payload: []byte(anErrand.Text)}}, n)
		for i := range messages {
			if keys {
				messages[i].Key = fmt.Sprintf("key %04d", i)
			}
		}
		l.ok(workqueue.InTx(l.Context(), l.db, func(tx workqueue.Tx) error {
			_, err := box.EnqueueMany(l.Context(), tx, messages...)
			return err
		}))
		if keys {
			l.exec("CALL outbox_fold()")
		}
	}
}

func (l *lab) jobRows(unique func(key string) *jobs.Unique) (*workqueue.Table, func(int)) {
	l.Helper()
	j := l.jobs()
	return j.client.Table(), func(n int) {
		l.Helper()
		inserts := slices.Repeat([]jobs.Insert{{Args: anErrand}}, n)
		for i := range inserts {
			if unique != nil {
				inserts[i].Unique = unique(fmt.Sprintf("key %04d", i))
			}
		}
		j.inTx(j.db, func(tx workqueue.Tx) error {
			_, err := j.client.EnqueueMany(j.Context(), tx, inserts...)
			return err
		})
	}
}

// A settling settles rows in a transaction, and returns those that it has settled.
type settling func(ctx context.Context, tx pgx.Tx, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)

// settles are the outcomes: as a Go worker sends them, what follows the ids in the function's short form, and the
// fields of an element of settle. A renewal has no element.
var settles = []struct {
	name           string
	statement      func(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	short, element string
}{
	{"ack", func(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
		return q.Ack(ctx, owner, ids)
	}, "", "'outcome', 'ack'"},
	{"retry", func(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
		return q.Abandon(ctx, owner, ids, time.Hour, "no")
	}, ", '1 hour', 'no'", "'outcome', 'retry', 'delay', 3600, 'error', 'no'"},
	{"fail", func(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
		return q.Fail(ctx, owner, ids, "no")
	}, ", 'no'", "'outcome', 'fail', 'error', 'no'"},
	{"snooze", func(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
		return q.Snooze(ctx, owner, ids, time.Hour)
	}, ", '1 hour'", "'outcome', 'snooze', 'delay', 3600"},
	{"release", func(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
		return q.Release(ctx, owner, ids)
	}, "", "'outcome', 'release'"},
	{"extend", func(ctx context.Context, q *workqueue.Queue, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
		return q.Extend(ctx, owner, ids, 2*time.Hour)
	}, ", '2 hours'", ""},
}

// TestASettleCostsWhatAWorkersCosts compares the functions with the statements of Go's workers.
func TestASettleCostsWhatAWorkersCosts(t *testing.T) {
	for name, open := range settleTables {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			table, insert := open(l)
			for _, s := range settles {
				ways := []settling{
					func(ctx context.Context, tx pgx.Tx, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
						return s.statement(ctx, table.In(workqueue.Pgx(tx)), owner, ids)
					},
					func(ctx context.Context, tx pgx.Tx, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
						return list(ctx, tx, "SELECT id FROM "+table.Name()+"_"+s.name+"($1, $2"+s.short+")", owner,
							ids)
					},
					func(ctx context.Context, tx pgx.Tx, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
						return list(ctx, tx, "SELECT id FROM "+table.Name()+"_settle((SELECT jsonb_agg(jsonb_build_object("+
							"'id', i, 'token', $1::uuid, "+s.element+")) FROM unnest($2::uuid[]) AS i))", owner, ids)
					},
				}
				if s.element == "" {
					ways = ways[:2]
				}
				for _, n := range []int{1, 20, 1000} {
					var costs []settleCost
					for _, way := range ways {
						costs = append(costs, l.settleCost(table, insert, n, way))
					}
					t.Logf("%s of %d rows: a worker reads %.0f pages and writes %.0f bytes of log, a function %.0f", s.name,
						n, costs[0].pages, costs[0].wal, costs[1:])
					for _, c := range costs[1:] {
						if math.Max(c.pages/costs[0].pages, c.wal/costs[0].wal) > settleRatio {
							t.Errorf("%s of %d rows by a function costs more than %v times what a worker's does", s.name, n,
								settleRatio)
						}
					}
				}
			}
		})
	}
}

// A settleCost is that of some calls.
type settleCost struct{ pages, wal float64 }

// settleCost settles n rows at a time, in tables that are new for each way: otherwise one of them would meet indexes
// with a level more.
func (l *lab) settleCost(table *workqueue.Table, insert func(n int), n int, settle settling) (sum settleCost) {
	l.Helper()
	calls := max(1, 200/n)
	l.exec("TRUNCATE " + strings.Join(l.tables(), ", "))
	insert(1 + calls*n)
	l.exec("VACUUM ANALYZE")
	conn, err := l.db.Acquire(l.Context())
	l.ok(err)
	defer conn.Release()
	once := func(n int) (c settleCost) {
		owner := workqueue.NewOwnerToken()
		ids, err := list(l.Context(), l.db, "SELECT id FROM "+table.Name()+"_fetch($1, '1 hour', $2) "+
			"WHERE id IS NOT NULL ORDER BY id", owner, n)
		l.ok(err)
		tx, err := conn.Begin(l.Context())
		l.ok(err)
		before := l.readSoFar(tx)
		done, err := settle(l.Context(), tx, owner, ids)
		l.ok(err)
		after := l.readSoFar(tx)
		l.ok(tx.Commit(l.Context()))
		if len(done) != n {
			l.Fatalf("%d rows were settled, want %d", len(done), n)
		}
		return settleCost{after.pages - before.pages, after.wal - before.wal}
	}
	once(1) // plans the statements, which reads indexes
	for range calls {
		c := once(n)
		sum.pages, sum.wal = sum.pages+c.pages, sum.wal+c.wal
	}
	return settleCost{sum.pages / float64(calls), sum.wal / float64(calls)}
}

// tables are those that settles write to.
func (l *lab) tables() []string {
	l.Helper()
	rows, err := l.db.Query(l.Context(), "SELECT format('public.%I', relname) FROM pg_class WHERE relkind = 'r' AND "+
		"relnamespace = 'public'::regnamespace AND relname NOT LIKE '%_cursor'")
	l.ok(err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	l.ok(err)
	return names
}

// readSoFar is how many pages of the schema's tables and indexes a transaction has read, triggers included, and the end
// of the log.
func (l *lab) readSoFar(tx pgx.Tx) (c settleCost) {
	l.Helper()
	l.ok(tx.QueryRow(l.Context(), `SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::float,
		(pg_current_wal_insert_lsn() - '0/0')::float FROM pg_class WHERE relnamespace = 'public'::regnamespace`).Scan(
		&c.pages, &c.wal))
	return c
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func list(ctx context.Context, db querier, query string, args ...any) ([]uuid.UUID, error) {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
