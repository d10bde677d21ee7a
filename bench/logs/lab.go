package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/measure"
)

// bulk is the size of a transaction of a bulk write, and producers how many write single messages at once.
const (
	bulk      = 1000
	producers = 8
)

// A lab is a private server.
type lab struct {
	options
	server   *localpg.Server
	progress io.Writer
	count    int
}

// A bench is a store in a database of its own.
type bench struct {
	*lab
	store store
	pool  *pgxpool.Pool
	drop  func()
}

func (l *lab) open(ctx context.Context, s store, consumers int, idle int) (*bench, error) {
	l.count++
	name := fmt.Sprintf("logs_%d", l.count)
	home, err := pgx.Connect(ctx, l.server.URL())
	if err != nil {
		return nil, err
	}
	defer home.Close(context.WithoutCancel(ctx))
	if _, err := home.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	u, err := url.Parse(l.server.URL())
	if err != nil {
		return nil, err
	}
	u.Path = "/" + name
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	b := &bench{lab: l, store: s, pool: pool, drop: func() {
		pool.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		if home, err := pgx.Connect(ctx, l.server.URL()); err == nil {
			_, _ = home.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
			_ = home.Close(ctx)
		}
	}}
	if err := s.prepare(ctx, pool, consumers, idle); err != nil {
		b.drop()
		return nil, err
	}
	return b, nil
}

// measure measures a line.
func (l *lab) measure(ctx context.Context, make func() store, consumers int) (f figures, err error) {
	steps := []func(*bench) error{
		func(b *bench) error { return b.writes(ctx, &f) },
		func(b *bench) error { return b.drains(ctx, consumers, &f) },
		func(b *bench) (err error) {
			f.Slow, _, err = b.arrivals(ctx, consumers, 100)
			return err
		},
		func(b *bench) (err error) {
			f.Fast, f.Behind, err = b.arrivals(ctx, consumers, 5000)
			return err
		},
		func(b *bench) error { return b.drainsHeld(ctx, consumers, &f) },
	}
	for _, step := range steps { // each in a database of its own
		b, err := l.open(ctx, make(), consumers, 0)
		if err != nil {
			return f, err
		}
		err = step(b)
		b.drop()
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// cost is what a number of messages cost.
func (b *bench) cost(ctx context.Context, do func() (messages int64, err error)) (c measure.Costs, err error) {
	if _, err := b.pool.Exec(ctx, "CHECKPOINT"); err != nil {
		return c, err
	}
	before, err := measure.Read(ctx, b.pool, b.server.Dir())
	if err != nil {
		return c, err
	}
	client := measure.ClientCPU()
	n, err := do()
	if err != nil {
		return c, err
	}
	client = measure.ClientCPU() - client
	after, err := measure.Read(ctx, b.pool, b.server.Dir())
	return before.Costs(after, client, n), err
}

// body is about as long as a short message. The time in it is when it was written.
func body() []byte { return fmt.Appendf(nil, `{"t": %d, "p": 1}`, time.Now().UnixNano()) }

func (b *bench) write(ctx context.Context, n int) error {
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = body()
	}
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return b.store.write(ctx, tx, bodies) })
}

func (b *bench) fill(ctx context.Context) error {
	for left := b.messages; left > 0; left -= bulk {
		if err := b.write(ctx, min(left, bulk)); err != nil {
			return err
		}
	}
	return nil
}

// writes measures what a producer costs.
func (b *bench) writes(ctx context.Context, f *figures) (err error) {
	f.Single, err = b.cost(ctx, func() (int64, error) {
		var n atomic.Int64
		end := time.Now().Add(b.duration())
		err := b.each(func() error {
			for time.Now().Before(end) {
				if err := b.write(ctx, 1); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
		return n.Load(), err
	})
	return err
}

func (b *bench) duration() time.Duration { return time.Duration(b.seconds * float64(time.Second)) }

// each runs what each producer does.
func (b *bench) each(do func() error) error {
	errs := make([]error, producers)
	var group sync.WaitGroup
	for i := range producers {
		group.Go(func() { errs[i] = do() })
	}
	group.Wait()
	return errors.Join(errs...)
}

// drains measures a bulk write, what it stores, and its drain.
func (b *bench) drains(ctx context.Context, consumers int, f *figures) (err error) {
	size := "SELECT pg_database_size(current_database())"
	var before, after int64
	if err := b.pool.QueryRow(ctx, size).Scan(&before); err != nil {
		return err
	}
	f.Bulk, err = b.cost(ctx, func() (int64, error) { return int64(b.messages), b.fill(ctx) })
	if err != nil {
		return err
	}
	if err := b.pool.QueryRow(ctx, size).Scan(&after); err != nil {
		return err
	}
	f.Stored = float64(after-before) / float64(b.messages)
	f.Drain, f.Rate, err = b.drain(ctx, consumers)
	return err
}

// drainsHeld measures a drain while a snapshot from before its messages is held.
func (b *bench) drainsHeld(ctx context.Context, consumers int, f *figures) (err error) {
	tx, err := b.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
		return err
	}
	if err := b.fill(ctx); err != nil {
		return err
	}
	f.Held, _, err = b.drain(ctx, consumers)
	return err
}

func (b *bench) drain(ctx context.Context, consumers int) (c measure.Costs, rate float64, err error) {
	if _, err := b.pool.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return c, 0, err
	}
	want := int64(b.messages * consumers)
	c, err = b.cost(ctx, func() (int64, error) {
		began := time.Now()
		var got atomic.Int64
		all := make(chan struct{})
		stop := b.consume(ctx, func([]byte) {
			if got.Add(1) == want {
				rate = float64(b.messages) / time.Since(began).Seconds()
				close(all)
			}
		})
		select {
		case <-all:
		case <-ctx.Done():
			return 0, errors.Join(context.Cause(ctx), stop())
		case <-time.After(5 * time.Minute):
			return 0, errors.Join(fmt.Errorf("%d of %d messages were delivered in 5 minutes", got.Load(), want), stop())
		}
		return int64(b.messages), stop()
	})
	return c, rate, err
}

// consume runs the store's consumers until stop is called.
func (b *bench) consume(ctx context.Context, handle func(body []byte)) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.store.consume(ctx, b.pool, handle) }()
	return func() error {
		cancel()
		return <-ended
	}
}
