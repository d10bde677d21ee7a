package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// MoveBackOptions configure [Outbox.MoveBack].
type MoveBackOptions struct {
	// Most bounds the messages that become rows, for which producers wait. Default: 5,000.
	Most int

	// LockTimeout and Wait are those of [MoveOptions]. Default: 2 s, and 1 minute.
	LockTimeout, Wait time.Duration
}

// MoveBack moves an outbox that has moved to a log back to rows while producers and relays run, and returns how many
// messages became rows. Like [Outbox.Move] it needs [MoveToLog] for all producers, and the owner of the tables.
//
// Rows have one destination, so one subscription has to be left, without topics and headers. All that it has not
// delivered becomes rows, in one short transaction that waits for all others that have written messages: with their
// ids, attempts, times and dedup keys, in the order of their keys. Dead letters stay dead letters. From its commit on
// producers write rows, the log takes no messages, and the subscription is gone.
//
// It refuses, and says so, while more than Most messages are not delivered: relays of the subscription bring that down.
// If consumers have messages in hand, it pauses the subscription and waits for them. If it gives up, the subscription
// goes on. A process that dies meanwhile may leave it paused, and nothing else. Called again it goes on, and does
// nothing if the outbox has moved back.
func (o *Outbox) MoveBack(ctx context.Context, pool *pgxpool.Pool, opts MoveBackOptions) (moved int64, err error) {
	if o.rows == nil {
		return 0, validate.Errorf("storage", "is not MoveToLog, with which all producers of an outbox that moves have "+
			"to be opened")
	}
	if opts.Most < 0 || opts.LockTimeout < 0 || opts.Wait < 0 {
		return 0, validate.Errorf("move", "has negative options: %+v", opts)
	}
	m := newMove(o, pool, MoveOptions{LockTimeout: opts.LockTimeout, Wait: opts.Wait})
	isBack := false
	giveBack := func(queue *workqueue.Queue) error {
		err := queue.Query(ctx, func(scan func(...any) error) error { return scan(&isBack) },
			"SELECT s.successor IS NULL FROM "+o.named("state")+" AS s")
		if err != nil || isBack {
			return err
		}
		call, args := "SELECT "+o.named("give_back")+"()", []any{}
		if opts.Most > 0 {
			call, args = "SELECT "+o.named("give_back")+"($1::integer)", []any{opts.Most}
		}
		return queue.Query(ctx, func(scan func(...any) error) error { return scan(&moved) }, call, args...)
	}
	if err = m.switched(ctx, giveBack); !isBlocked(err) {
		return moved, err
	}
	resume, err := m.pauseAll(ctx)
	if err != nil {
		return 0, err
	}
	err = m.try(ctx, func() error {
		if _, err := m.table.On(pool).ReapExpired(ctx, moveBatch); err != nil { // of consumers that have died
			return err
		}
		return m.switched(ctx, giveBack)
	})
	if err != nil {
		return 0, errors.Join(err, resume())
	}
	return moved, nil
}

// pauseAll pauses the subscriptions that are not paused: one, if the outbox can move back.
func (m *move) pauseAll(ctx context.Context) (resume func() error, err error) {
	var names []string
	err = m.inTx(ctx, func(queue *workqueue.Queue) error {
		return queue.Query(ctx, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			names = append(names, name)
			return err
		}, "SELECT s.name FROM "+m.named("subscription")+" AS s WHERE NOT s.paused AND "+m.named("pause")+"(s.name)")
	})
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.LockTimeout+10*time.Second)
		defer cancel()
		return m.inTx(ctx, func(queue *workqueue.Queue) error {
			_, err := queue.Exec(ctx, "SELECT "+m.named("resume")+"(s.name) FROM "+m.named("subscription")+
				" AS s WHERE s.name = ANY ($1::text[])", names)
			return err
		})
	}, err
}
