package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func newTimersCommand(a *app) *cobra.Command {
	return newGroup("timers", "Set, cancel and list timers", newTimersSetCommand(a), newTimersCancelCommand(a),
		newTimersListCommand(a))
}

// withTimers connects and makes sure that the tables of timers exist.
func (a *app) withTimers(ctx context.Context, do func(*database, *timers.Timers) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		t, err := timers.Open(timers.Options{Schema: d.Schema, Telemetry: a.telemetry()})
		if err != nil {
			return usageError{err}
		}
		for _, table := range t.Tables() {
			if err := table.CheckVersion(ctx, d.Pool); err != nil {
				return err
			}
		}
		return d.looking(ctx, func() error { return conclude(do(d, t)) }, t.Tables()...)
	})
}

// setOptions are the flags of set.
type setOptions struct {
	content
	key   string
	at    moment
	after age
	json  bool
}

func newTimersSetCommand(a *app) *cobra.Command {
	var o setOptions
	cmd := newCommand("set KEY --topic TOPIC (--at TIME | --in AGE)", "Set or move a timer", cobra.ExactArgs(1))
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.Var(&o.at, "at", "when, as RFC 3339 has it: 2027-03-01T08:30:00Z")
	flags.Var(&o.after, "in", "in how long, such as 90s, 36h or 14d, by the database's clock")
	jsonVar(flags, &o.json, jsonUsage, shownTimer{})
	cmd.MarkFlagsOneRequired("at", "in")
	cmd.MarkFlagsMutuallyExclusive("at", "in")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.key = args[0]
		if err := o.validate(); err != nil {
			return err
		}
		payload, err := o.payload(a)
		if err != nil {
			return err
		}
		return a.withTimers(cmd.Context(), func(d *database, t *timers.Timers) error {
			return a.setTimer(cmd.Context(), d, t, o, payload)
		})
	}
	return cmd
}

func (a *app) setTimer(ctx context.Context, d *database, t *timers.Timers, o setOptions, payload []byte) error {
	var set timers.Info
	var now time.Time
	err := d.Write(ctx, func(tx workqueue.Tx) error {
		_, err := t.Set(ctx, tx, timers.Timer{Key: o.key, Topic: o.topic, ScheduledAt: o.at.Time,
			Delay:   o.after.Duration,
			Payload: payload, MaxAttempts: o.maxAttempts})
		if err == nil {
			set, err = t.Get(ctx, tx, o.key)
		}
		if err == nil {
			now, err = nowOf(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	shown := newShownTimer(set, now)
	if o.json {
		return a.printJSON(shown)
	}
	verb := "set"
	switch {
	case set.RearmAt != nil:
		verb = "is firing, and set again"
	case set.Generation > 1:
		verb = "set again"
	}
	_, err = fmt.Fprintf(a.stdout, "timer %s %s for %s\n", named(o.key), verb, shown.next().Format(time.RFC3339Nano))
	return err
}

// nowOf returns the time of the database.
func nowOf(ctx context.Context, tx workqueue.Tx) (now time.Time, err error) {
	err = tx.Query(ctx, func(scan func(...any) error) error { return scan(&now) }, "SELECT pg_catalog.now()")
	return now, err
}

// A shownTimer is a timer without its payload.
type shownTimer struct {
	Key          string     `json:"key"`
	ID           uuid.UUID  `json:"id"` // id of its row
	Topic        string     `json:"topic"`
	Status       string     `json:"status"`             // ready, in_progress, done or failed
	State        string     `json:"state"`              // ready, scheduled, in_progress, done, failed or cancelled
	FireAt       time.Time  `json:"fire_at"`            // when it fires, as it was set
	DueAt        time.Time  `json:"due_at"`             // when it may be claimed; retries delay it
	RearmAt      *time.Time `json:"rearm_at,omitempty"` // when it fires again, because it was set during its firing
	Generation   int        `json:"generation"`         // how often it was set
	Schedule     string     `json:"schedule,omitempty"` // schedule that set it
	Attempts     int        `json:"attempts"`           // attempts begun so far
	MaxAttempts  int        `json:"max_attempts"`
	LastError    string     `json:"last_error,omitempty"`   // error of its last failed attempt
	CompletedAt  *time.Time `json:"completed_at,omitempty"` // when it ended
	CancelledAt  *time.Time `json:"cancelled_at,omitempty"` // when its cancel was requested
	PayloadBytes int        `json:"payload_bytes"`          // size of its payload
}

func newShownTimer(i timers.Info, now time.Time) shownTimer {
	return shownTimer{
		Key: i.Key, ID: i.ID, Topic: i.Topic, Status: i.Status.String(),
		State: string(stateOf(i.Status, false, i.DueAt, i.CancelledAt, now)), FireAt: i.ScheduledAt.UTC(),
		DueAt: i.DueAt.UTC(), RearmAt: operate.UTC(i.RearmAt),
		Generation: i.Generation, Schedule: i.Schedule, Attempts: i.Attempts, MaxAttempts: i.MaxAttempts,
		LastError:   i.LastError,
		CompletedAt: operate.UTC(i.CompletedAt), CancelledAt: operate.UTC(i.CancelledAt), PayloadBytes: len(i.Payload),
	}
}

// next is when the timer fires according to its latest setting.
func (s shownTimer) next() time.Time {
	if s.RearmAt != nil {
		return *s.RearmAt
	}
	return s.FireAt
}

func newTimersCancelCommand(a *app) *cobra.Command {
	cmd := newCommand("cancel KEY...", "Cancel timers", cobra.MinimumNArgs(1))
	asJSON := jsonFlag(cmd, cancelledTimers{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withTimers(cmd.Context(), func(d *database, t *timers.Timers) error {
			return a.cancelTimers(cmd.Context(), d, t, args, *asJSON)
		})
	}
	return cmd
}

// cancelledTimers is what cancel prints.
type cancelledTimers struct {
	Changed   int              `json:"changed"`   // number of cancelled timers
	Unchanged []unchangedTimer `json:"unchanged"` // named timers that were not cancelled
}

// An unchangedTimer is one that was named, and why it was left alone.
type unchangedTimer struct {
	Key    string `json:"key"`
	Reason string `json:"reason"` // why it was left alone
}

// maxNamed is how many keys the audit keeps of those that were named together.
const maxNamed = 20

func (a *app) cancelTimers(ctx context.Context, d *database, t *timers.Timers, keys []string, asJSON bool) error {
	var cancelled []string
	unchanged := []unchangedTimer{}
	about := map[string]any{"keys": keys[:min(len(keys), maxNamed)], "named": len(keys)}
	act := operate.Act{Verb: operate.Cancel.Name, Target: ofTimers, About: about}
	err := d.Act(ctx, act, func(tx workqueue.Tx) (n int, err error) {
		if cancelled, err = t.Cancel(ctx, tx, keys...); err != nil {
			return 0, err
		}
		unchanged, err = whyNot(ctx, tx, t, keys)
		return len(cancelled), err
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(cancelledTimers{len(cancelled), unchanged})
	} else {
		for _, u := range unchanged {
			fmt.Fprintf(a.stderr, "txwork: %s was not cancelled: %s\n", named(u.Key), u.Reason)
		}
		_, err = fmt.Fprintf(a.stdout, "%s cancelled\n", plural(len(cancelled), "timer"))
	}
	if err == nil && len(unchanged) > 0 {
		err = fmt.Errorf("%s could not be cancelled", plural(len(unchanged), "timer"))
	}
	return err
}

// whyNot reads timers after a cancel, and says why some of them were not cancelled. Those that were cancelled, or whose
// cancel is pending, are left out.
func whyNot(ctx context.Context, tx workqueue.Tx, t *timers.Timers, keys []string) ([]unchangedTimer, error) {
	list := []unchangedTimer{}
	for _, key := range keys {
		found, err := t.Get(ctx, tx, key)
		switch {
		case errors.Is(err, workqueue.ErrNotFound):
			list = append(list, unchangedTimer{key, "there is no such timer"})
		case err != nil:
			return nil, err
		case found.CancelledAt == nil || found.Status == workqueue.Done: // acknowledged in spite of its cancel
			list = append(list, unchangedTimer{key, "it is " + found.Status.String()})
		}
	}
	return list, nil
}
