package alarms

import (
	"context"
	"errors"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

var (
	// ErrEnded says that the alarm has ended, as by a cancel, before its delivery was settled: nothing was
	// changed on it.
	ErrEnded = errors.New("the alarm has ended")
)

// Options configure [Alarms]. The zero value is usable and is what txwork's own migrations and CLI assume.
type Options struct {
	// Schema holds the tables of alarms and of timers. Default: [workqueue.DefaultSchema].
	Schema string

	// MaxFailures is how many deliveries of a firing may fail before it is given up, for an alarm that does not say; at
	// most [MaxMaxFailures]. Default: [DefaultMaxFailures].
	MaxFailures int

	// MaxPayload bounds the payload, and by itself the wake message, in bytes. Default: [DefaultMaxPayload].
	MaxPayload int

	// Telemetry says where spans, metrics, logs and events of the timers go. Its logger is that of the
	// dispatcher, too.
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
	if o.MaxFailures == 0 {
		o.MaxFailures = DefaultMaxFailures
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	return o, nil
}

// Alarms are the alarms of one schema. They hold no connection and are safe for concurrent use; open them once
// and keep them.
type Alarms struct {
	options    Options
	timers     *timers.Timers
	statements statements
}

// Open validates the options. It does not touch the database.
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

// Timers are the timers of the same schema, which fire the alarms.
func (a *Alarms) Timers() *timers.Timers { return a.timers }

// Tables are the tables that the reaper maintains: those of the timers.
func (a *Alarms) Tables() []*workqueue.Table { return a.timers.Tables() }

// A Store is the operations on alarms, through a pool ([Alarms.On]) or inside an application's transaction
// ([Alarms.In]). It is as safe for concurrent use as what it runs on.
type Store struct {
	alarms *Alarms
	pool   *pgxpool.Pool // nil inside an application's transaction
	do     func(ctx context.Context, work func(workqueue.Tx) error) error
}

// On is the operations in READ COMMITTED transactions of their own.
func (a *Alarms) On(pool *pgxpool.Pool) *Store {
	return &Store{alarms: a, pool: pool, do: func(ctx context.Context, work func(workqueue.Tx) error) error {
		return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return work(workqueue.Pgx(tx))
		})
	}}
}

// In is the operations inside an application's transaction: they take effect when it commits. After an error
// that is none of [workqueue.ErrNotFound] and [workqueue.ErrInvalid], roll it back. The dispatcher's operations need
// transactions of their own: they refuse to work here.
func (a *Alarms) In(tx workqueue.Tx) *Store {
	return &Store{alarms: a, do: func(_ context.Context, work func(workqueue.Tx) error) error {
		if tx == nil {
			return validate.Errorf("transaction", "is nil")
		}
		return work(tx)
	}}
}
