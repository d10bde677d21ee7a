package logs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/peer"
)

// poll is how long a consumer of PgQ and pgmq rests that has found nothing, and PgQ's ticker between two ticks.
const poll = 10 * time.Millisecond

// rest waits, and reports whether ctx was not cancelled meanwhile.
func rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(poll):
		return true
	}
}

// pgq has a queue with several consumers, and a ticker beside them, as its daemon would be.
type pgq struct{ consumers int }

func newPgQ() store { return new(pgq) }

func (p *pgq) prepare(ctx context.Context, pool *pgxpool.Pool, consumers, _ int) error {
	var there bool
	err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pgq')").Scan(&there)
	if err == nil && !there {
		err = &notThere{"the server has no extension pgq, which Debian's postgresql-15-pgq3 has"}
	}
	if err != nil {
		return err
	}
	p.consumers = consumers
	statements := []string{"CREATE EXTENSION pgq", "SELECT pgq.create_queue('bench')",
		"SELECT pgq.set_queue_config('bench', 'ticker_max_lag', '0 seconds')"}
	for i := range consumers {
		statements = append(statements, fmt.Sprintf("SELECT pgq.register_consumer('bench', 'c%d')", i))
	}
	for _, s := range statements {
		if _, err := pool.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (p *pgq) write(ctx context.Context, tx pgx.Tx, bodies [][]byte) error {
	_, err := tx.Exec(ctx, "SELECT count(pgq.insert_event('bench', 'job', b)) FROM unnest($1::text[]) AS b", texts(bodies))
	return err
}

func texts(bodies [][]byte) []string {
	all := make([]string, len(bodies))
	for i, b := range bodies {
		all[i] = string(b)
	}
	return all
}

func (p *pgq) consume(ctx context.Context, pool *pgxpool.Pool, handle func(body []byte)) error {
	all := []func(context.Context) error{func(ctx context.Context) error {
		for rest(ctx) {
			if _, err := pool.Exec(context.WithoutCancel(ctx), "SELECT pgq.ticker()"); err != nil {
				return err
			}
		}
		return nil
	}}
	for i := range p.consumers {
		all = append(all, func(ctx context.Context) error {
			return p.read(ctx, pool, fmt.Sprintf("c%d", i), handle)
		})
	}
	return together(ctx, all)
}

// read handles batch after batch. One that has begun is finished.
func (p *pgq) read(ctx context.Context, pool *pgxpool.Pool, consumer string, handle func(body []byte)) error {
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		var batch *int64
		if err := pool.QueryRow(whole, "SELECT pgq.next_batch('bench', $1)", consumer).Scan(&batch); err != nil {
			return err
		}
		if batch == nil {
			rest(ctx)
			continue
		}
		rows, err := pool.Query(whole, "SELECT ev_data FROM pgq.get_batch_events($1)", *batch)
		if err != nil {
			return err
		}
		var body []byte
		if _, err = pgx.ForEachRow(rows, []any{&body}, func() error { handle(body); return nil }); err != nil {
			return err
		}
		if _, err := pool.Exec(whole, "SELECT pgq.finish_batch($1)", *batch); err != nil {
			return err
		}
	}
	return nil
}

// pgmq has a queue for each consumer, to which each message is sent.
type pgmq struct{ queues []string }

func newPgmq() store { return new(pgmq) }

// source is the SQL of pgmq.
var source = peer.Foreign{Env: "BENCH_PGMQ_SQL"}

// claimed is how many messages a consumer of pgmq takes at once.
const claimed = 100

func (p *pgmq) prepare(ctx context.Context, pool *pgxpool.Pool, consumers, _ int) error {
	text, err := source.Text()
	if err != nil {
		return &notThere{err.Error()}
	}
	if _, err := pool.Exec(ctx, text); err != nil {
		return err
	}
	for i := range consumers {
		p.queues = append(p.queues, fmt.Sprintf("q%d", i))
		if _, err := pool.Exec(ctx, "SELECT pgmq.create($1)", p.queues[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *pgmq) write(ctx context.Context, tx pgx.Tx, bodies [][]byte) error {
	for _, q := range p.queues {
		if _, err := tx.Exec(ctx, "SELECT count(*) FROM pgmq.send_batch($1, $2::text[]::jsonb[])", q,
			texts(bodies)); err != nil {
			return err
		}
	}
	return nil
}

func (p *pgmq) consume(ctx context.Context, pool *pgxpool.Pool, handle func(body []byte)) error {
	var all []func(context.Context) error
	for _, q := range p.queues {
		all = append(all, func(ctx context.Context) error { return p.read(ctx, pool, q, handle) })
	}
	return together(ctx, all)
}

// read takes messages and archives them.
func (p *pgmq) read(ctx context.Context, pool *pgxpool.Pool, queue string, handle func(body []byte)) error {
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		rows, err := pool.Query(whole, "SELECT msg_id, message::text FROM pgmq.read($1, 30, $2)", queue, claimed)
		if err != nil {
			return err
		}
		var ids []int64
		var id int64
		var body []byte
		if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error {
			ids = append(ids, id)
			handle(body)
			return nil
		}); err != nil {
			return err
		}
		if len(ids) == 0 {
			rest(ctx)
			continue
		}
		if _, err := pool.Exec(whole, "SELECT count(*) FROM pgmq.archive($1, $2::bigint[])", queue, ids); err != nil {
			return err
		}
	}
	return nil
}
