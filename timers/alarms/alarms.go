package alarms

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Options configure [Alarms]. The zero value is usable, and matches txwork's own migrations and CLI.
type Options struct {
	// Schema holds the tables of alarms and of timers. Default: [workqueue.DefaultSchema].
	Schema string

	// MaxFailures is how many deliveries of a firing may fail before it is given up, for an alarm that does not set its
	// own number: at most [MaxMaxFailures]. Default: [DefaultMaxFailures].
	MaxFailures int

	// MaxPayload is the limit for the payload, and a separate limit of the same size for the wake message, in bytes.
	// Default: [DefaultMaxPayload].
	MaxPayload int

	// Telemetry receives spans, metrics, logs and events of the timers. The dispatcher uses its logger, too.
	Telemetry workqueue.Telemetry
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.MaxFailures < 0 || o.MaxFailures > MaxMaxFailures:
		return o, validate.Errorf("max failures", "is %d, it must be between 1 and %d, or 0 for the default",
			o.MaxFailures, MaxMaxFailures)
	case o.MaxPayload < 0:
		return o, validate.Errorf("max payload", "is %d, it cannot be negative", o.MaxPayload)
	}
	o.MaxFailures = cmp.Or(o.MaxFailures, DefaultMaxFailures)
	o.MaxPayload = cmp.Or(o.MaxPayload, DefaultMaxPayload)
	return o, nil
}

// Alarms are the alarms of one schema. They hold no connection and are safe for concurrent use. Open them once and keep
// them.
type Alarms struct {
	options    Options
	timers     *timers.Timers
	statements statements
}

// Open validates the options. It does not access the database.
func Open(o Options) (*Alarms, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := timers.Open(timers.Options{Schema: o.Schema, MaxAttempts: o.MaxFailures, Retry: Ladder,
		Telemetry: o.Telemetry})
	if err != nil {
		return nil, err
	}
	return &Alarms{options: o, timers: t, statements: render(o.Schema)}, nil
}

// Timers returns the timers of the same schema, which fire the alarms. Their tables are those for the reaper.
func (a *Alarms) Timers() *timers.Timers { return a.timers }

// A Store has the operations on alarms. They run on a pool ([Alarms.On]) or inside an application's transaction
// ([Alarms.In]). A Store on a pool is safe for concurrent use; one in a transaction is as safe as the transaction.
type Store struct {
	alarms *Alarms
	pool   *pgxpool.Pool // nil inside an application's transaction
	do     func(ctx context.Context, work func(workqueue.Tx) error) error
}

// On returns a Store whose operations run in READ COMMITTED transactions of their own.
func (a *Alarms) On(pool *pgxpool.Pool) *Store {
	return &Store{alarms: a, pool: pool, do: func(ctx context.Context, work func(workqueue.Tx) error) error {
		return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return work(workqueue.Pgx(tx))
		})
	}}
}

// In returns a Store whose operations run inside an application's transaction, and take effect when it commits. After
// an error that is neither [workqueue.ErrNotFound] nor [workqueue.ErrInvalid], roll the transaction back.
func (a *Alarms) In(tx workqueue.Tx) *Store {
	return &Store{alarms: a, do: func(_ context.Context, work func(workqueue.Tx) error) error {
		if tx == nil {
			return validate.Errorf("transaction", "is nil")
		}
		return work(tx)
	}}
}
