//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// tenants hides half of all rows from one process, by row-level security: from a worker, or from the only reaper that
// runs. Then a worker is killed. The process may take nothing that it does not see for gone, nor keep others from it:
// no lease and no note may stay once another reaper is back. The policies come before the process or while it works.
type tenants struct {
	private
	reaper bool // the last strike's tenant was a reaper
}

func (*tenants) role(l *lab) string { return l.schema + "_tenant" }

func (f *tenants) strike(ctx context.Context, l *lab, random *rand.Rand) (detail string, err error) {
	if err := l.grantAll(ctx, f.role(l)); err != nil {
		return "", err
	}
	// Whoever waits for an exclusive lock holds up all who come later.
	owner, err := l.open(ctx, "policies", 1, map[string]string{"lock_timeout": "1s"})
	if err != nil {
		return "", err
	}
	defer owner.Close()
	hide := func() error { return l.retryEach(ctx, owner, f.hiding(l)) }
	strikeAt := f.strikeWorker
	if f.reaper = !f.reaper; f.reaper {
		strikeAt = f.strikeReaper
	}
	before, after, when := hide, nothing, "after the policies"
	if random.IntN(2) == 0 {
		before, after, when = nothing, hide, "before the policies"
	}
	if err = before(); err == nil {
		detail, err = strikeAt(ctx, l, random, after)
	}
	return detail + ", started " + when, errors.Join(err, l.retryEach(ctx, owner, f.showing(l)))
}

func nothing() error { return nil }

// strikeWorker lets a worker be the tenant.
func (f *tenants) strikeWorker(ctx context.Context, l *lab, random *rand.Rand, hide func() error) (string, error) {
	return l.as(ctx, random, inRole(f.role(l)), nil, func() error {
		if err := hide(); err != nil {
			return err
		}
		time.Sleep(episode)
		if err := l.killOne(ctx, random); err != nil {
			return err
		}
		time.Sleep(episode)
		return l.awaitServed(ctx, "", "")
	})
}

// strikeReaper lets a reaper be the tenant, while the other one is stopped for longer than its leadership lasts.
func (f *tenants) strikeReaper(ctx context.Context, l *lab, random *rand.Rand, hide func() error) (string, error) {
	reapers := l.crew.of(roleReaper)
	i := random.IntN(len(reapers))
	victim, other := reapers[i], reapers[1-i]
	err := victim.become(ctx, inRole(f.role(l)), nil)
	if err == nil {
		err = l.stopped(ctx, other, func() error {
			time.Sleep(workqueue.MinLease + 2*reapEvery)
			if err := hide(); err != nil {
				return err
			}
			if err := l.killOne(ctx, random); err != nil {
				return err
			}
			time.Sleep(episode)
			return nil
		})
	}
	if err == nil {
		err = l.awaitServed(ctx, "", "")
	}
	return victim.name, errors.Join(err, victim.become(ctx, nil, nil))
}

// killOne kills a worker, whose leases expire.
func (l *lab) killOne(ctx context.Context, random *rand.Rand) error {
	_, m, err := l.crew.pick(ctx, random)
	if err == nil {
		l.hit = time.Now()
		m.signal(syscall.SIGKILL)
	}
	return err
}

// stopped stops a process while do runs.
func (l *lab) stopped(ctx context.Context, s *slot, do func() error) error {
	m, err := s.begun(ctx)
	if err != nil {
		return err
	}
	m.signal(syscall.SIGSTOP)
	defer m.signal(syscall.SIGCONT)
	return do()
}

// hiding returns statements that give the tables policies for the tenant. Owners and superusers see all rows still.
func (f *tenants) hiding(l *lab) (all []string) {
	for _, table := range maintained {
		all = append(all, strings.NewReplacer("{table}", l.schema+"."+table, "{role}", f.role(l)).Replace(`
			DROP POLICY IF EXISTS half ON {table};
			CREATE POLICY half ON {table} TO {role} USING (get_byte(uuid_send(id), 15) % 2 = 0);
			ALTER TABLE {table} ENABLE ROW LEVEL SECURITY`))
	}
	return all
}

func (*tenants) showing(l *lab) (all []string) {
	for _, table := range maintained {
		all = append(all, fmt.Sprintf("ALTER TABLE %s.%s DISABLE ROW LEVEL SECURITY", l.schema, table))
	}
	return all
}

// retryEach executes statements, and then makes the policies of side tables follow those of the rows. Each is repeated
// until it gets its locks.
func (l *lab) retryEach(ctx context.Context, owner *pgxpool.Pool, statements []string) error {
	rows, err := owner.Query(ctx, `SELECT format('SELECT %s()', oid::regproc) FROM pg_proc
		WHERE pronamespace = to_regnamespace($1) AND proname LIKE '%\_policies'`, l.schema)
	if err != nil {
		return err
	}
	follow, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, statement := range append(statements, follow...) {
		err = errors.Join(err, l.retry(ctx, func(ctx context.Context) error {
			_, err := owner.Exec(ctx, statement)
			return err
		}))
	}
	return err
}
