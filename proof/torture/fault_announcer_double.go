//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// announcerDouble makes two sessions announce for one table. The first cannot fall asleep, because a transaction that
// was silent for it stays open; the second has woken up meanwhile. They belong to two processes, or to two runtimes in
// one. Then one of them is struck, or none, and the transaction commits.
type announcerDouble struct {
	plain
	inQuiet
}

func (announcerDouble) harms() harm { return harmsAnnouncers }

func (announcerDouble) strike(ctx context.Context, l *lab, random *rand.Rand) (detail string, err error) {
	if random.IntN(3) > 0 {
		return doubled(ctx, l, random, blows)
	}
	// Killing the process is left out: with two runtimes it could have two unrecorded claims under way, and the checker
	// allows for one only.
	return l.listeningBy(ctx, random, func(config *setup) { config.Twice = true }, func(m *member) (string, error) {
		detail, err := doubled(ctx, l, random, blows[1:])
		return m.app + " has two runtimes: " + detail, err
	})
}

// A blow is what one of two announcers is struck with.
type blow struct {
	name string
	deal func(ctx context.Context, l *lab, a awake, m *member) error
}

var blows = []blow{
	{"is killed", func(_ context.Context, _ *lab, _ awake, m *member) error {
		m.signal(syscall.SIGKILL)
		<-m.ended
		return nil
	}},
	{"loses its session", func(ctx context.Context, l *lab, a awake, _ *member) error {
		_, err := l.admin.Exec(ctx, "SELECT pg_terminate_backend($1)", a.pid)
		return err
	}},
	{"stands still", func(_ context.Context, _ *lab, _ awake, m *member) error {
		m.signal(syscall.SIGSTOP)
		time.Sleep(longestFreeze / 2)
		m.signal(syscall.SIGCONT)
		return nil
	}},
	{"goes on", func(context.Context, *lab, awake, *member) error { return nil }},
}

func doubled(ctx context.Context, l *lab, random *rand.Rand, blows []blow) (detail string, err error) {
	err = l.inBursts(ctx, random, l.url, func(w *writers) error {
		w.burst(ctx)
		first, err := w.awaitAwake(ctx, nil)
		if err != nil {
			return err
		}
		commit, err := w.silent(ctx, first.table)
		if err != nil {
			return err
		}
		defer commit()
		w.lull()
		if err := w.awaitAsleep(ctx); err != nil {
			return err
		}
		w.burst(ctx)
		second, err := w.awaitAwake(ctx, func(a awake) bool { return a.table == first.table })
		if err != nil {
			return err
		}
		l.hit = time.Now()
		struck, which := first, "the first of two"
		if random.IntN(2) == 0 {
			struck, which = second, "the second of two"
		}
		m := w.crew.member(struck.app)
		if m == nil {
			return skip("%s has ended", struck.app)
		}
		b := blows[random.IntN(len(blows))]
		detail = fmt.Sprintf("%s and %s announce %s, %s %s", first.app, second.app, first.table, which, b.name)
		if err := b.deal(ctx, l, struck, m); err != nil {
			return err
		}
		commit()
		time.Sleep(onAndOn)
		return nil
	})
	return detail, err
}

// silent leaves a transaction open that has written a row and relies on the announcer to announce it.
func (w *writers) silent(ctx context.Context, table string) (commit func(), err error) {
	open, told := make(chan struct{}), make(chan bool, 1)
	commit = sync.OnceFunc(func() { close(open) })
	p := newProducer(w.shop, w.pool, w.random.Uint64())
	w.late.Go(func() {
		w.commit(ctx, p, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
			names, err := writable[table][0](ctx, p, tx)
			if err != nil {
				return nil, err
			}
			silent, err := holdsLock(ctx, tx, w.schema+"."+table+" silent")
			select {
			case told <- silent && err == nil:
			default:
			}
			<-open
			return names, err
		}, 0)
	})
	select {
	case silent := <-told:
		if silent {
			return commit, nil
		}
		err = skip("the announcer fell asleep too early")
	case <-time.After(wakeLimit):
		err = fmt.Errorf("nothing can be written into %s", table)
	}
	commit()
	return nil, err
}

// holdsLock tells whether the session holds the advisory lock of a name.
func holdsLock(ctx context.Context, tx pgx.Tx, name string) (held bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_locks AS l, hashtextextended($1, 0) AS k (lock)
			WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.objsubid = 1
			  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid)`,
		name).Scan(&held)
	return held, err
}
