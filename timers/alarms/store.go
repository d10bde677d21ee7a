package alarms

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// maxVanished is how often CreateAlarm tries again because the alarm that held the key was deleted before it could be
// read.
const maxVanished = 10

// CreateAlarm writes an alarm and its timer. If its owner has an alarm with the same IdempotencyKey, in whatever state,
// nothing is written: that alarm is returned unchanged, and deduped is true. The rest of n is not validated then, so a
// request can be repeated safely even after its time has passed.
//
// Everything is validated before it is written. The error is then a [*workqueue.InvalidError] that names the field as
// the REST API does.
func (s *Store) CreateAlarm(ctx context.Context, n New) (a Alarm, deduped bool, err error) {
	n = n.complete(s.alarms.options)
	if err := n.checkFirst(s.alarms.options); err != nil {
		return Alarm{}, false, err
	}
	err = s.do(ctx, func(tx workqueue.Tx) error {
		for range maxVanished {
			if a, deduped, err = s.find(ctx, tx, n); err != nil || deduped {
				return err
			}
			if err := n.check(s.alarms.options); err != nil {
				return err
			}
			var created bool
			if a, created, err = s.create(ctx, tx, n); err != nil || created {
				return err
			}
		}
		return fmt.Errorf("txwork: the alarm that holds idempotency key %q is there when it is to be created, and is "+
			"not when it is to be read", n.IdempotencyKey)
	})
	return a, deduped, err
}

// find returns the alarm that holds the key of n, if there is one.
func (s *Store) find(ctx context.Context, tx workqueue.Tx, n New) (Alarm, bool, error) {
	if n.IdempotencyKey == "" {
		return Alarm{}, false, nil
	}
	return s.one(ctx, tx, s.alarms.statements.find, n.OwnerDID, n.IdempotencyKey)
}

// create writes the alarm and its timer. It writes nothing and returns false if another transaction has taken the key
// meanwhile.
func (s *Store) create(ctx context.Context, tx workqueue.Tx, n New) (Alarm, bool, error) {
	now, err := clock(ctx, tx)
	if err != nil {
		return Alarm{}, false, err
	}
	first, err := n.first(now)
	if err != nil {
		return Alarm{}, false, err
	}
	var fireAt *time.Time
	if n.Kind == KindOnce {
		fireAt = &first
	}
	a, created, err := s.one(ctx, tx, s.alarms.statements.create, n.OwnerDID, n.UserID, n.Label, n.Kind, fireAt,
		n.CronExpr,
		n.Timezone, first, n.ConversationID, n.WakeMessage, string(n.Payload), n.IdempotencyKey, n.MaxFailures)
	if err != nil || !created {
		return Alarm{}, false, err
	}
	return a, true, s.alarms.arm(ctx, tx, a, first)
}

// first returns the alarm's first time, at the resolution of PostgreSQL.
func (n New) first(now time.Time) (time.Time, error) {
	if n.Kind == KindCron {
		rule, err := parse(n.CronExpr, n.Timezone)
		if err != nil {
			return time.Time{}, err
		}
		next, ok := rule.Next(now)
		if !ok || next.Year() > lastYear {
			return time.Time{}, validate.Errorf("cron_expr", "has no next time")
		}
		return next.UTC(), nil
	}
	if n.Delay > 0 {
		return now.Add(n.Delay).Round(time.Microsecond), nil
	}
	if !n.FireAt.After(now) {
		return time.Time{}, validate.Errorf("fire_at", "is %s, which is not in the future",
			n.FireAt.UTC().Format(time.RFC3339))
	}
	return n.FireAt.UTC().Round(time.Microsecond), nil
}

// arm sets the alarm's timer.
func (a *Alarms) arm(ctx context.Context, tx workqueue.Tx, alarm Alarm, at time.Time) error {
	_, err := a.timers.Set(ctx, tx, timers.Timer{
		Key:         KeyPrefix + alarm.ID,
		Topic:       Topic,
		ScheduledAt: at,
		MaxAttempts: min(max(alarm.MaxFailures, 1), MaxMaxFailures) + MaxLostClaims,
	})
	return err
}

// GetAlarm reads an owner's alarm. The error is [workqueue.ErrNotFound] if the owner has no alarm with the id, even if
// another owner has.
func (s *Store) GetAlarm(ctx context.Context, id, ownerDID string) (a Alarm, err error) {
	key, err := uuid.Parse(id)
	if err != nil {
		return Alarm{}, notFound(id)
	}
	err = s.do(ctx, func(tx workqueue.Tx) error {
		a, err = s.get(ctx, tx, key, ownerDID)
		return err
	})
	return a, err
}

func (s *Store) get(ctx context.Context, tx workqueue.Tx, id uuid.UUID, ownerDID string) (Alarm, error) {
	a, found, err := s.one(ctx, tx, s.alarms.statements.get, id, ownerDID)
	if err == nil && !found {
		err = notFound(id.String())
	}
	return a, err
}

func notFound(id string) error {
	return fmt.Errorf("txwork: alarm %q %w", clip(id), workqueue.ErrNotFound)
}

// CancelAlarm ends an owner's active alarm, cancels its timer, and returns the alarm. An alarm that has ended is
// returned unchanged. If a delivery is running, its context is cancelled. It may still reach the receiver, but the
// alarm stays cancelled. The error is [workqueue.ErrNotFound] if the owner has no alarm with the id, even if another
// owner has.
func (s *Store) CancelAlarm(ctx context.Context, id, ownerDID string) (a Alarm, err error) {
	key, err := uuid.Parse(id)
	if err != nil {
		return Alarm{}, notFound(id)
	}
	err = s.do(ctx, func(tx workqueue.Tx) error {
		var active bool
		if a, active, err = s.one(ctx, tx, s.alarms.statements.cancel, key, ownerDID); err != nil {
			return err
		}
		if !active {
			a, err = s.get(ctx, tx, key, ownerDID)
			return err
		}
		_, err = s.alarms.timers.Cancel(ctx, tx, KeyPrefix+a.ID)
		return err
	})
	return a, err
}

// begin records in an alarm that its delivery begins. It returns false if the alarm is no longer active.
func (s *Store) begin(ctx context.Context, id uuid.UUID) (a Alarm, active bool, err error) {
	err = s.do(ctx, func(tx workqueue.Tx) error {
		a, active, err = s.one(ctx, tx, s.alarms.statements.begin, id)
		return err
	})
	return a, active, err
}

// one returns the only row of a statement, if there is one.
func (s *Store) one(ctx context.Context, tx workqueue.Tx, statement string, args ...any) (Alarm, bool, error) {
	list, err := s.read(ctx, tx, statement, args...)
	if err != nil || len(list) == 0 {
		return Alarm{}, false, err
	}
	return list[0], true, nil
}

func (s *Store) read(ctx context.Context, tx workqueue.Tx, statement string, args ...any) (list []Alarm, err error) {
	err = tx.Query(ctx, func(scan func(...any) error) error {
		a, err := scanAlarm(scan)
		list = append(list, a)
		return err
	}, statement, args...)
	return list, err
}

// scanAlarm scans the columns of columns.sql, and those that a statement adds to them.
func scanAlarm(scan func(...any) error, more ...any) (Alarm, error) {
	var a Alarm
	var id uuid.UUID
	var payload string
	err := scan(append([]any{&id, &a.OwnerDID, &a.UserID, &a.Label, &a.Kind, &a.FireAt, &a.CronExpr, &a.Timezone,
		&a.NextFireAt, &a.ConversationID, &a.WakeMessage, &payload, &a.Status, &a.IdempotencyKey, &a.MaxFailures,
		&a.FailureCount, &a.LastError, &a.ClaimedAt, &a.CreatedAt, &a.UpdatedAt, &a.LastFiredAt}, more...)...)
	a.ID, a.Payload = id.String(), json.RawMessage(payload)
	a.NextFireAt, a.CreatedAt, a.UpdatedAt = a.NextFireAt.UTC(), a.CreatedAt.UTC(), a.UpdatedAt.UTC()
	for _, t := range []*time.Time{a.FireAt, a.ClaimedAt, a.LastFiredAt} {
		if t != nil {
			*t = t.UTC()
		}
	}
	return a, err
}

// clock reads the database's clock.
func clock(ctx context.Context, tx workqueue.Tx) (now time.Time, err error) {
	err = tx.Query(ctx, func(scan func(...any) error) error { return scan(&now) },
		"SELECT pg_catalog.clock_timestamp()")
	return now.UTC(), err
}
