//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
		detail := "paused " + s.Name
		if err := do(func(tx workqueue.Tx) error { _, err := box.PauseSubscription(ctx, tx, s.Name); return err }); err != nil {
			return detail, err
		}
		time.Sleep(episode / 2)
		return detail, do(func(tx workqueue.Tx) error { _, err := box.ResumeSubscription(ctx, tx, s.Name); return err })
	case !s.late:
		same := outbox.Subscription{Name: s.Name, Topics: s.Topics}
		return "changed " + s.Name, do(func(tx workqueue.Tx) error {
			_, err := box.ChangeSubscription(ctx, tx, same)
			return err
		})
	}
	return f.move(ctx, l, box, s.Name, do)
}

// move replays a subscription from the beginning and cuts it a moment later, while it is behind.
func (*logVerbs) move(ctx context.Context, l *lab, box *outbox.Outbox, name string,
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

// logRestored makes the log believe that it is in another cluster: ticks and fetches are refused. Then it is rebased,
// while producers write, and goes on with what it had in hand.
type logRestored struct{ plain }

func (logRestored) harms() harm { return harmsNobody } // no row

func (logRestored) strike(ctx context.Context, l *lab, _ *rand.Rand) (string, error) {
	table := l.schema + ".outbox_log"
	l.hit = time.Now()
	if err := l.retry(ctx, func(ctx context.Context) error {
		_, err := l.admin.Exec(ctx, "UPDATE "+table+"_state SET system = system # 1")
		return err
	}); err != nil {
		return "", err
	}
	time.Sleep(episode / 2)
	_, ticked := l.admin.Exec(ctx, "CALL "+table+"_tick()")
	if ticked == nil || !strings.Contains(ticked.Error(), "rebase") && !strings.Contains(ticked.Error(), "55000") {
		l.fail("a log in another cluster ticks, error %v", ticked)
	}
	var shift int64
	err := l.retry(ctx, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, l.admin, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SELECT "+table+"_rebase()").Scan(&shift)
		})
	})
	return fmt.Sprintf("rebased, shift %d", shift), err
}
