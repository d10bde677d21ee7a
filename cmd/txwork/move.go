package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// moveOptions are the flags of move.
type moveOptions struct {
	outbox.MoveOptions
	asking
}

func newMoveCommand(a *app) *cobra.Command {
	var o moveOptions
	cmd := newCommand("move log|rows", "Move an outbox that runs from rows to a log, or back", cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.StringVar(&o.Subscription, "subscription", "",
		"make this subscription of a log, which gets the destination of the rows")
	flags.IntVar(&o.Lanes, "lanes", 1, "how many consumers can read it at once")
	flags.DurationVar(&o.LockTimeout, "lock-timeout", 2*time.Second,
		"how long producers may wait behind the switch at a time")
	flags.DurationVar(&o.Wait, "wait", time.Minute,
		"how long to try the switch while transactions that wrote messages stay open")
	o.addFlags(flags, movedOutbox{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		move := a.move
		switch {
		case args[0] == "rows":
			move = a.moveBack
		case args[0] != "log":
			return usagef("an outbox cannot move to %q, only to log or rows", args[0])
		}
		if args[0] == "log" != (o.Subscription != "") {
			return usagef("--subscription is needed to move to a log, and only then")
		}
		if o.Lanes < 1 || o.LockTimeout <= 0 || o.Wait <= 0 {
			return usagef("--lanes, --lock-timeout and --wait must be positive")
		}
		if err := o.check(); err != nil {
			return err
		}
		return a.withOutbox(cmd.Context(), outbox.Options{Storage: outbox.MoveToLog}, "",
			func(d *database, box *outbox.Outbox) error {
				return inCommands(conclude(move(cmd.Context(), d, box, o)))
			})
	}
	return cmd
}

// A movedOutbox is what move prints.
type movedOutbox struct {
	Stage        string  `json:"stage"`               // rows (before the switch, or after the way back), moving, or moved
	Subscription string  `json:"subscription"`        // the one that has, or would get, the destination of the rows
	Since        float64 `json:"seconds,omitempty"`   // how long ago the switch was
	Moved        int64   `json:"moved"`               // rows that this command has parked for the subscription, or messages that became rows
	Unfinished   int64   `json:"unfinished"`          // rows that have not ended, of which 20000 are counted
	InProgress   int64   `json:"in_progress"`         // rows of these that a relay has in hand
	Blocking     int64   `json:"blocking"`            // dead letters that block their keys: they move, too
	Limited      int64   `json:"limited"`             // rows whose key has a limit, which do not move
	Hindrance    string  `json:"hindrance,omitempty"` // why the switch is not possible
	DryRun       bool    `json:"dry_run"`             // nothing was changed
}

func newMovedOutbox(s outbox.MoveState, o moveOptions) movedOutbox {
	m := movedOutbox{Stage: string(s.Stage), Subscription: s.Successor, Since: s.Since.Seconds(), Moved: s.Moved,
		Unfinished: s.Unfinished, InProgress: s.InProgress, Blocking: s.Blocking, Limited: s.Limited,
		Hindrance: s.Hindrance, DryRun: o.dryRun}
	if s.Stage == outbox.BeforeMove {
		m.Subscription = o.Subscription
	}
	return m
}

// moveBack says whether the outbox can move back, asks, and does it.
func (a *app) moveBack(ctx context.Context, d *database, box *outbox.Outbox, o moveOptions) error {
	s, err := d.moveState(ctx, box)
	if err != nil {
		return err
	}
	m := newMovedOutbox(s, o)
	m.Hindrance = s.Back
	if s.Stage == outbox.DuringMove {
		m.Hindrance = "it still moves to the log: let " + postgres.Command(d.Schema, "outbox", "move", "log") + " end"
	}
	if !o.dryRun && s.Stage == outbox.AfterMove {
		question := fmt.Sprintf("Move the outbox back to rows, and remove subscription %s?", named(s.Successor))
		if err := a.confirm(ctx, o.asking, question); err != nil {
			return err
		}
		err := d.acting(ctx, actOfMove("move back", s.Successor), func(uuid.UUID) (err error) {
			m.Moved, err = box.MoveBack(ctx, d.Pool,
				outbox.MoveBackOptions{LockTimeout: o.LockTimeout, Wait: o.Wait})
			return err
		})
		if err != nil {
			return err
		}
		m.Stage, m.Since = string(outbox.BeforeMove), 0
	}
	if o.json {
		return a.printJSON(m)
	}
	text := fmt.Sprintf("the outbox has rows: %s of the log became rows", plural(int(m.Moved), "message"))
	switch {
	case m.Hindrance != "":
		text = "the outbox cannot move back to rows: " + m.Hindrance
	case s.Stage == outbox.AfterMove && o.dryRun:
		text = fmt.Sprintf("the outbox would move back to rows, and subscription %s be removed", named(s.Successor))
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

func actOfMove(verb, subscription string) operate.Act {
	return operate.Act{Verb: verb, Target: "outbox", About: map[string]string{"subscription": subscription}}
}

func (d *database) moveState(ctx context.Context, box *outbox.Outbox) (s outbox.MoveState, err error) {
	err = d.readTx(ctx, func(tx workqueue.Tx, _ time.Time) (err error) {
		s, err = box.MoveState(ctx, tx)
		return err
	})
	return s, err
}

// move says how far the move is, asks, and goes on with it to its end.
func (a *app) move(ctx context.Context, d *database, box *outbox.Outbox, o moveOptions) error {
	s, err := d.moveState(ctx, box)
	if err != nil {
		return err
	}
	if o.dryRun {
		return a.printMoved(s, o)
	}
	if s.Stage == outbox.BeforeMove && s.Hindrance == "" {
		question := fmt.Sprintf("Switch the outbox to the log for good, and move %s to subscription %s?",
			plural(int(s.Unfinished+s.Blocking), "row"), named(o.Subscription))
		if err := a.confirm(ctx, o.asking, question); err != nil {
			return err
		}
	}
	bar, total := a.newTally("moving", "rows", -1), s.Unfinished+s.Blocking
	o.Progress = func(s outbox.MoveState) { bar.of(s.Moved, max(total, s.Moved+s.Unfinished+s.Blocking)) }
	err = d.acting(ctx, actOfMove("move", o.Subscription), func(uuid.UUID) (err error) {
		s, err = box.Move(ctx, d.Pool, o.MoveOptions)
		return err
	})
	bar.end()
	if err != nil {
		return err
	}
	return a.printMoved(s, o)
}

func (a *app) printMoved(s outbox.MoveState, o moveOptions) error {
	m := newMovedOutbox(s, o)
	if o.json {
		return a.printJSON(m)
	}
	text := fmt.Sprintf("the outbox has moved to subscription %s: %s moved", named(m.Subscription),
		plural(int(m.Moved), "row"))
	rows := fmt.Sprintf("%s, of which %d in progress, and %s that block their keys", plural(int(m.Unfinished), "row"),
		m.InProgress, plural(int(m.Blocking), "dead letter"))
	if m.Limited > 0 {
		rows += fmt.Sprintf("; relays of the rows have to deliver %d whose key has a limit", m.Limited)
	}
	switch {
	case m.Hindrance != "":
		text = "the outbox cannot move: " + m.Hindrance
	case s.Stage == outbox.BeforeMove:
		text = fmt.Sprintf("the outbox would move to subscription %s with %s", named(m.Subscription), rows)
	case s.Stage == outbox.DuringMove:
		text = fmt.Sprintf("the outbox moves to subscription %s since %s: left are %s", named(m.Subscription),
			rough(s.Since), rows)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}
