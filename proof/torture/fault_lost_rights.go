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
)

// lostRights takes the rights on one table from one process, whose sessions have a role of their own. It strikes a
// reaper that leads all tables, or a worker, which may sweep, fold, announce and schedule. Other processes must take
// over what it can do no longer, and neither expired leases nor notes may stay. Then it gets the rights back.
type lostRights struct{ private }

// successorLimit is how long the others may take to do what the process without rights cannot do.
const successorLimit = time.Minute

// maintained are the tables that a reaper leads and that lose rows to killed workers.
var maintained = []string{"outbox", "inbox", "timers", "jobs"}

// used are tables of which a worker needs one for only a part of its work.
var used = []string{"outbox", "outbox_key_note", "outbox_key_state", "outbox_join_note", "outbox_join_member", "timers",
	"timers_schedule", "jobs", "jobs_key_note", "jobs_key_state", "jobs_join", "jobs_schedule", "jobs_slot"}

func (lostRights) role(l *lab) string { return l.schema + "_weak" }

// grant creates the role, and gives it all rights.
func (f lostRights) grant(ctx context.Context, l *lab) error {
	_, err := l.admin.Exec(ctx, strings.NewReplacer("{role}", f.role(l), "{schema}", l.schema).Replace(`
		DO $$ BEGIN
			IF to_regrole('{role}') IS NULL THEN CREATE ROLE {role}; END IF;
		END $$;
		GRANT USAGE ON SCHEMA {schema} TO {role};
		GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
		GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};
		GRANT EXECUTE ON ALL PROCEDURES IN SCHEMA {schema} TO {role}`))
	return err
}

func (f lostRights) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	if err := f.grant(ctx, l); err != nil {
		return "", err
	}
	as := func(config *setup) { config.Parameters = map[string]string{"role": f.role(l)} }
	if random.IntN(2) == 0 {
		return f.strikeReaper(ctx, l, random, as)
	}
	table := used[random.IntN(len(used))]
	name, err := l.as(ctx, random, as, nil, func() error {
		time.Sleep(episode)
		return f.without(ctx, l, "ALL", table, func() error {
			time.Sleep(episode)
			return l.awaitServed(ctx, "", "")
		})
	})
	return fmt.Sprintf("%s, all rights on %s", name, table), err
}

func (f lostRights) strikeReaper(ctx context.Context, l *lab, random *rand.Rand, as func(*setup)) (string, error) {
	reapers := l.crew.of(roleReaper)
	i := random.IntN(len(reapers))
	victim, other := reapers[i], reapers[1-i]
	right := []string{"UPDATE", "SELECT", "ALL"}[random.IntN(3)]
	table := maintained[random.IntN(len(maintained))]
	detail := fmt.Sprintf("%s, %s on %s", victim.name, right, table)
	if err := victim.become(ctx, as, nil); err != nil {
		return detail, err
	}
	err := l.makeLead(ctx, other, table)
	if err == nil {
		err = f.without(ctx, l, right, table, func() error {
			led, err := l.leads(ctx, table)
			if _, m, pickErr := l.crew.pick(ctx, random); pickErr == nil {
				m.signal(syscall.SIGKILL) // its leases expire
			}
			return errors.Join(err, l.awaitServed(ctx, table, led))
		})
	}
	return detail, errors.Join(err, victim.become(ctx, nil, nil))
}

// makeLead stops one reaper until another leads the table.
func (l *lab) makeLead(ctx context.Context, other *slot, table string) error {
	m, err := other.begun(ctx)
	if err != nil {
		return err
	}
	m.signal(syscall.SIGSTOP)
	defer m.signal(syscall.SIGCONT)
	before, err := l.leads(ctx, table)
	for err == nil {
		var now string
		if now, err = l.leads(ctx, table); now != before {
			break
		}
		time.Sleep(reapEvery)
	}
	return err
}

// leads returns who led a table last.
func (l *lab) leads(ctx context.Context, table string) (holder string, err error) {
	err = l.admin.QueryRow(ctx, "SELECT holder::text FROM "+l.schema+".leader WHERE name = $1",
		l.schema+"."+table).Scan(&holder)
	return holder, err
}

// without takes a right on a table from the role while do runs.
func (f lostRights) without(ctx context.Context, l *lab, right, table string, do func() error) error {
	l.hit = time.Now()
	on := fmt.Sprintf("%s ON %s.%s ", right, l.schema, table)
	if _, err := l.admin.Exec(ctx, "REVOKE "+on+"FROM "+f.role(l)); err != nil {
		return err
	}
	err := do()
	_, granted := l.admin.Exec(ctx, "GRANT "+on+"TO "+f.role(l))
	return errors.Join(err, granted)
}

// awaitServed waits until the holder no longer leads the table, and no lease is left that expired a while ago, nor any
// note that was due then. If that takes too long, the run has failed.
func (l *lab) awaitServed(ctx context.Context, table, holder string) error {
	const overdue = lease
	parts := []string{"SELECT name || ' is led by a process that cannot serve it' FROM " + l.schema + ".leader " +
		"WHERE name = $2 AND holder::text = $3 AND expires_at > clock_timestamp()"}
	for _, table := range maintained {
		parts = append(parts, fmt.Sprintf("SELECT '%[2]s: lease of ' || id FROM %[1]s.%[2]s WHERE status = 1 AND "+
			"locked_until < clock_timestamp() - $1::bigint * interval '1 microsecond'", l.schema, table))
	}
	for _, table := range []string{"outbox_key_note", "outbox_join_note", "jobs_key_note", "jobs_join_note"} {
		parts = append(parts, fmt.Sprintf("SELECT '%[2]s: note of ' || at FROM %[1]s.%[2]s WHERE at < "+
			"clock_timestamp() - $1::bigint * interval '1 microsecond'", l.schema, table))
	}
	query := strings.Join(parts, " UNION ALL ")
	for {
		rows, err := l.admin.Query(ctx, query, overdue.Microseconds(), l.schema+"."+table, holder)
		if err != nil {
			return err
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		switch {
		case err != nil:
			return err
		case len(left) == 0:
			return nil
		case time.Since(l.hit) > successorLimit:
			l.fail("nobody took over from a process that lost its rights: %s", strings.Join(left[:min(len(left), 5)],
				"; "))
			return nil
		}
		time.Sleep(reapEvery)
	}
}
