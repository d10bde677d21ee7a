//go:build unix

package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// tenants hides half of all rows from one process, by row-level security: from a worker, or from the only reaper that
// runs. Then workers are killed. The process may take nothing that it does not see for gone, nor keep others from it:
// no lease and no note may stay once another reaper is back. The policies come before the process or while it works.
type tenants struct {
	private
	strikes int
}

// tenancies take turns. Without policies of the side tables, a tenant sees the notes of rows that it does not see.
var tenancies = []struct{ worker, sides bool }{{true, false}, {false, true}, {true, true}, {false, false}}

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
	tenancy := tenancies[f.strikes%len(tenancies)]
	f.strikes++
	hide := func() error { return f.hide(ctx, l, owner, tenancy.sides) }
	first, then, order := hide, nothing, "policies first"
	if random.IntN(2) == 0 {
		first, then, order = nothing, hide, "policies later"
	}
	if !tenancy.sides {
		order += ", none on side tables"
	}
	strike := f.strikeReaper
	if tenancy.worker {
		strike = f.strikeWorker
	}
	if err = first(); err == nil {
		detail, err = strike(ctx, l, random, then)
	}
	return detail + ", " + order, errors.Join(err, f.show(ctx, l, owner))
}

func nothing() error { return nil }

// strikeWorker lets a worker be the tenant.
func (f *tenants) strikeWorker(ctx context.Context, l *lab, random *rand.Rand, hide func() error) (string, error) {
	return l.as(ctx, random, inRole(f.role(l)), nil, func() error {
		if err := hide(); err != nil {
			return err
		}
		time.Sleep(episode)
		_, m, err := l.crew.pick(ctx, random)
		if err != nil {
			return err
		}
		l.hit = time.Now()
		m.signal(syscall.SIGKILL)
		time.Sleep(afterKill)
		return l.awaitServed(ctx)
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
			l.hit = time.Now()
			for _, m := range l.crew.presentWorkers() {
				m.signal(syscall.SIGKILL) // there are hidden leases of every table
			}
			time.Sleep(afterKill)
			return nil
		})
	}
	if err == nil {
		err = l.awaitServed(ctx)
	}
	return victim.name, errors.Join(err, victim.become(ctx, nil, nil))
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

// hide gives the tables policies for the tenant. Owners and superusers see all rows still.
func (f *tenants) hide(ctx context.Context, l *lab, owner *pgxpool.Pool, sides bool) (err error) {
	for _, table := range maintained {
		err = errors.Join(err, l.persist(ctx, owner, strings.NewReplacer("{table}", l.schema+"."+table, "{role}",
			f.role(l)).Replace(`
			DROP POLICY IF EXISTS half ON {table};
			CREATE POLICY half ON {table} TO {role} USING (get_byte(uuid_send(id), 15) % 2 = 0);
			ALTER TABLE {table} ENABLE ROW LEVEL SECURITY`)))
	}
	if sides {
		err = errors.Join(err, l.sidesFollow(ctx, owner))
	}
	return err
}

func (*tenants) show(ctx context.Context, l *lab, owner *pgxpool.Pool) (err error) {
	for _, table := range maintained {
		err = errors.Join(err, l.persist(ctx, owner, "ALTER TABLE "+l.schema+"."+table+" DISABLE ROW LEVEL SECURITY"))
	}
	return errors.Join(err, l.sidesFollow(ctx, owner))
}

// sidesFollow makes the policies of side tables follow those of the rows.
func (l *lab) sidesFollow(ctx context.Context, owner *pgxpool.Pool) error {
	rows, err := owner.Query(ctx, `SELECT format('SELECT %s()', oid::regproc) FROM pg_proc
		WHERE pronamespace = to_regnamespace($1) AND proname LIKE '%\_policies' ORDER BY proname`, l.schema)
	if err != nil {
		return err
	}
	calls, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, call := range calls {
		err = errors.Join(err, l.persist(ctx, owner, call))
	}
	return err
}

// persist executes a statement until it gets its locks.
func (l *lab) persist(ctx context.Context, pool *pgxpool.Pool, statement string) error {
	return l.retry(ctx, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, statement)
		return err
	})
}
