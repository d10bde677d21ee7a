//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	pooler "github.com/txwork/txwork/internal/pgbouncer"
)

// rush harms nobody: it alternates between bursts in which announcers wake up, and rests in which they fall asleep. Its
// rows show whether a wake is lost between the two.
type rush struct {
	plain
	inQuiet
}

func (rush) harms() harm { return harmsNobody }

func (rush) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	return l.rush(ctx, random, l.url, nil)
}

const (
	rushes  = 2
	rushFor = 2 * time.Second // on average, after an announcer has woken up
	// restFor is how long nothing is written after all announcers have fallen asleep. It is longer than a row may wait.
	restFor = hearing + time.Second
)

// awaitsCalm bounds how long to wait until no earlier fault excuses a wait: an excuse lasts for half of it, and on a
// machine that stands still again and again there is always another one.
func (o Options) awaitsCalm() time.Duration { return 2 * (o.Poll + hearing) }

// rush writes once no earlier fault excuses a wait any more. The function beside starts something that runs meanwhile.
func (l *lab) rush(ctx context.Context, random *rand.Rand, url string, beside func() (end func() error,
	err error)) (detail string, err error) {
	until := time.Now().Add(l.options.awaitsCalm())
	for time.Now().Before(until) && time.Now().Before(l.undisturbed()) && ctx.Err() == nil {
		time.Sleep(retryBase)
	}
	err = l.inBursts(ctx, random, url, func(w *writers) (err error) {
		if beside != nil {
			end, begins := beside()
			if begins != nil {
				return begins
			}
			defer func() { err = errors.Join(err, end()) }()
		}
		l.hit = time.Now()
		for range rushes {
			if err := w.rush(ctx); err != nil {
				return err
			}
		}
		detail = fmt.Sprintf("%d rows of %s", w.written.Load(), strings.Join(w.tables, " and "))
		return nil
	})
	return detail, err
}

// rush runs one burst and the rest after it.
func (w *writers) rush(ctx context.Context) error {
	w.burst(ctx)
	_, err := w.awaitAwake(ctx, nil)
	if err == nil {
		time.Sleep(time.Duration(w.random.Int64N(int64(2 * rushFor))))
	}
	w.lull()
	err = errors.Join(err, w.awaitAsleep(ctx))
	time.Sleep(restFor)
	return err
}

// rushBesideSnapshot holds a snapshot meanwhile, so that vacuum removes nothing and every look at the queue may pass
// all finished rows.
type rushBesideSnapshot struct{ rush }

func (rushBesideSnapshot) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	return l.rush(ctx, random, l.url, func() (func() error, error) {
		tx, err := l.admin.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return nil, err
		}
		_, err = tx.Exec(ctx, "SELECT count(*) FROM "+l.schema+".jobs")
		return func() error { return tx.Rollback(context.WithoutCancel(ctx)) }, err
	})
}

// pooledRush lets the producers connect through PgBouncer in transaction mode, where each transaction may use another
// session.
type pooledRush struct {
	pgbouncer
	inQuiet
}

func (pooledRush) harms() harm { return harmsNobody }

func (p *pooledRush) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	url, stop, err := p.pool(ctx, l, "transaction")
	if err != nil {
		return "", err
	}
	defer stop()
	return l.rush(ctx, random, url, nil)
}

// pool starts a pooler with a connection for each of the writers.
func (p *pgbouncer) pool(ctx context.Context, l *lab, mode string) (url string, stop func(), err error) {
	settings := fmt.Sprintf("auth_type = any\npool_mode = %s\ndefault_pool_size = %d", mode, writerCount+lateRoom)
	address, stop, err := p.start(l, settings)
	if err != nil {
		return "", nil, err
	}
	url = p.url(address)
	if err := pooler.Await(ctx, url); err != nil {
		stop()
		return "", nil, err
	}
	return url, stop, nil
}
