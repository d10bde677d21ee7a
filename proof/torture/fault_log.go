//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// logVerbs changes subscriptions that are being read. One is made in the middle, and then replayed and cut, with a said
// loss. Others are paused, and changed to what they are: that takes the pages in hand from their consumers.
type logVerbs struct {
	plain
	made bool
}

func (*logVerbs) harms() harm { return harmsNobody } // no row

func (f *logVerbs) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	box := l.shop.domains.log
	s := subscriptions[random.IntN(len(subscriptions))]
	do := func(verb func(tx workqueue.Tx) error) error {
		return l.retry(ctx, func(ctx context.Context) error {
			return pgx.BeginTxFunc(ctx, l.admin, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
				return verb(workqueue.Pgx(tx))
			})
		})
	}
	switch {
	case !f.made:
		s = subscriptions[len(subscriptions)-1]
		f.made = true
		return "made " + s.Name, do(func(tx workqueue.Tx) error { return box.Subscribe(ctx, tx, s.Subscription) })
	case !s.late && random.IntN(2) == 0:
		return "paused " + s.Name, f.pause(ctx, box, s.Name, do)
	case !s.late:
		same := outbox.Subscription{Name: s.Name, Topics: s.Topics}
		return "changed " + s.Name, do(func(tx workqueue.Tx) error {
			_, err := box.ChangeSubscription(ctx, tx, same)
			return err
		})
	}
	return f.move(ctx, box, s.Name, do)
}

func (*logVerbs) pause(ctx context.Context, box *outbox.Outbox, name string,
	do func(func(workqueue.Tx) error) error) error {
	err := do(func(tx workqueue.Tx) error {
		_, err := box.PauseSubscription(ctx, tx, name)
		return err
	})
	if err == nil {
		time.Sleep(episode / 2)
	}
	return errors.Join(err, do(func(tx workqueue.Tx) error {
		_, err := box.ResumeSubscription(ctx, tx, name)
		return err
	}))
}

// move replays a subscription from the beginning and cuts it a moment later, while it is behind.
func (*logVerbs) move(ctx context.Context, box *outbox.Outbox, name string,
	do func(func(workqueue.Tx) error) error) (string, error) {
	if err := do(func(tx workqueue.Tx) error {
		_, err := box.Replay(ctx, tx, name, outbox.Beginning)
		return err
	}); err != nil {
		return "replayed " + name, err
	}
	time.Sleep(episode / 4)
	var lost int64
	err := do(func(tx workqueue.Tx) error {
		lost = 0
		moved, err := box.Cut(ctx, tx, name, cutAge)
		for _, m := range moved {
			lost += m.Lost
		}
		return err
	})
	return fmt.Sprintf("replayed %s, and cut it with a loss of %d", name, lost), err
}

// cutAge is the age beyond which a cut passes messages over.
const cutAge = time.Second

// logRestored lets the ids of the log begin again, as in a cluster into which it was restored: its newest messages and
// ticks have ids that the cluster has yet to give. Ticks are refused, and so are messages that no tick would see. Then
// it is rebased, and goes on with what it had in hand.
type logRestored struct{ plain }

func (logRestored) harms() harm { return harmsNobody } // no row

// idsAhead is by how much the ids of the log are raised, before they begin again.
const idsAhead = 1_000_000

func (f logRestored) strike(ctx context.Context, l *lab, _ *rand.Rand) (string, error) {
	var before, after int64
	read := "SELECT shift FROM " + l.schema + ".outbox_log_state"
	if err := l.admin.QueryRow(ctx, read).Scan(&before); err != nil {
		return "", err
	}
	if err := f.call(ctx, l, fmt.Sprintf("_shift(%d)", before+idsAhead)); err != nil {
		return "", err
	}
	ahead := f.ticked(ctx, l, before+idsAhead/2)
	l.hit = time.Now()
	err := errors.Join(ahead, f.call(ctx, l, fmt.Sprintf("_shift(%d)", before)))
	if err == nil {
		time.Sleep(episode / 4)
		f.refused(ctx, l, "CALL "+l.schema+".outbox_log_tick()")
		f.refused(ctx, l, "SELECT "+l.schema+".outbox_log_append('"+topicFree+"', '')")
	}
	err = errors.Join(err, f.call(ctx, l, "_rebase()"))
	if err == nil {
		err = l.admin.QueryRow(ctx, read).Scan(&after)
	}
	if err == nil && after < before+idsAhead/2 { // the cluster has given ids meanwhile
		l.fail("a rebase raised the ids of the log by %d, and they had been up to %d ahead", after-before, idsAhead)
	}
	return fmt.Sprintf("the ids began again and were raised by %d", after-before), err
}

// ticked waits until a tick was made with ids that are ahead by a number.
func (logRestored) ticked(ctx context.Context, l *lab, by int64) error {
	ctx, cancel := context.WithTimeout(ctx, l.options.patience())
	defer cancel()
	for {
		var ahead bool
		err := l.admin.QueryRow(ctx, `SELECT (t.seen).high > pg_snapshot_xmax(pg_current_snapshot())::text::bigint + $1
			FROM `+l.schema+".outbox_log_tick AS t ORDER BY t.n DESC LIMIT 1", by).Scan(&ahead)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("no tick was made while the ids of the log were ahead: %w", ctx.Err())
		case err == nil && ahead:
			return nil
		}
		time.Sleep(retryBase)
	}
}

// call calls a function of the log until it is answered.
func (logRestored) call(ctx context.Context, l *lab, function string) error {
	return l.retry(ctx, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, l.admin, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT "+l.schema+".outbox_log"+function)
			return err
		})
	})
}

// refused fails the run if the log does not refuse a statement.
func (logRestored) refused(ctx context.Context, l *lab, statement string) {
	_, err := l.admin.Exec(ctx, statement)
	if pg, ok := errors.AsType[*pgconn.PgError](err); err == nil || ok && pg.Code != "55000" {
		l.fail("a log whose ids began again does not refuse %s: error %v", statement, err)
	}
}
