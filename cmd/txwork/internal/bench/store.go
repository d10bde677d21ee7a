package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A store is a table with a way to fill it and to work on it.
type store interface {
	// table returns the name of the table, without the schema.
	table() string
	// insert writes the parcels in tx.
	insert(ctx context.Context, tx pgx.Tx, parcels []parcel) error
	// worker makes a worker with the default options, but for its shutdown timeout, whose handler is handle.
	worker(pool *pgxpool.Pool, handle handle) (runner, error)
	// done counts how many of the n rows written are done.
	done(ctx context.Context, l *lab, n int64) (int64, error)
}

// shutdownLimit is the workers' shutdown timeout. Their handlers end at once, so a worker that needs longer waits for a
// server that has died.
const shutdownLimit = 5 * time.Second

// A handle is a no-op handler of a parcel.
type handle func(number int64, attempt int) error

// A runner runs until its context ends, as workers and schedulers do.
type runner interface {
	Run(ctx context.Context) error
}
