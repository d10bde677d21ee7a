//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// lostRights takes the rights on one table from one process, whose sessions have a role of their own. It strikes a
// reaper that leads all tables, or a worker, which may sweep, fold, announce and schedule. Other processes must take
// over what it can do no longer, and neither expired leases nor notes may stay. Then it gets the rights back.
type lostRights struct{ private }

// used are tables of which a worker needs one for only a part of its work.
var used = []string{"outbox", "outbox_key_note", "outbox_key_state", "outbox_join_note", "outbox_join_member", "timers",
	"timers_schedule", "jobs", "jobs_key_note", "jobs_key_state", "jobs_join", "jobs_schedule", "jobs_slot",
	"outbox_log", "outbox_log_tick", "outbox_log_subscription", "outbox_log_position", "outbox_log_parked"}

func (lostRights) role(l *lab) string { return l.schema + "_weak" }

func (f lostRights) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	if err := l.grantAll(ctx, f.role(l)); err != nil {
		return "", err
	}
	as := inRole(f.role(l))
	if random.IntN(2) == 0 {
		return f.strikeReaper(ctx, l, random, as)
	}
	table := used[random.IntN(len(used))]
	name, err := l.as(ctx, random, as, nil, func() error {
		time.Sleep(episode)
		return f.without(ctx, l, "ALL", table, func() error {
			time.Sleep(afterKill) // it may be unable to renew its leases
			return l.awaitServed(ctx)
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
			if _, m, err := l.crew.pick(ctx, random); err == nil {
				m.signal(syscall.SIGKILL) // its leases expire
				time.Sleep(afterKill)
			}
			return l.awaitServed(ctx)
		})
	}
	return detail, errors.Join(err, victim.become(ctx, nil, nil))
}

// makeLead stops one reaper until another leads the table.
func (l *lab) makeLead(ctx context.Context, other *slot, table string) error {
	return l.stopped(ctx, other, func() error {
		var seen renewals
		for {
			g, err := l.granted(ctx, table)
			if err != nil {
				return err
			}
			if seen.show(g) {
				return nil
			}
			time.Sleep(reapEvery / 5)
		}
	})
}

// A grant is a leadership as an election granted it last.
type grant struct {
	holder string
	at     time.Time
}

// granted returns the last grant of a table, or none if its holder has resigned.
func (l *lab) granted(ctx context.Context, table string) (g grant, err error) {
	err = l.admin.QueryRow(ctx, "SELECT holder::text, granted_at FROM "+l.schema+".leader WHERE name = $1 "+
		"AND expires_at > granted_at", l.schema+"."+table).Scan(&g.holder, &g.at)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return g, err
}

// renewals are the grants that were seen since a reaper was stopped. One of that reaper's may have been on its way, so
// only who was granted the leadership once more after a first renewal is running.
type renewals struct {
	last  grant
	count int
}

// show takes the last grant, and reports whether its holder is running.
func (r *renewals) show(g grant) bool {
	switch {
	case g.holder != r.last.holder:
		r.count = 0
	case !g.at.Equal(r.last.at):
		r.count++
	}
	r.last = g
	return r.count > 1
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
