package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A movedSubscription is what change, replay and cut print.
type movedSubscription struct {
	Subscription string      `json:"subscription"`   // its name
	Lanes        []movedLane `json:"lanes"`          // those that were changed or moved
	Lost         int64       `json:"lost"`           // messages that they were moved past
	Again        int64       `json:"again"`          // messages that it had settled and that a replay delivers again, of the first 100000 of the log
	AtLeast      bool        `json:"again_at_least"` // there may be more of these
	DryRun       bool        `json:"dry_run"`        // nothing was changed: this would be

	Before *operate.SubscriptionFilter `json:"before,omitempty"` // which messages it had before a change
	After  *operate.SubscriptionFilter `json:"after,omitempty"`  // and which it has
}

// A movedLane says where a lane goes on.
type movedLane struct {
	Lane  int   `json:"lane"`           // number of the lane, from 0
	Tick  int64 `json:"tick"`           // behind what this tick has seen
	Done  int64 `json:"done"`           // and behind this number of the batch that follows
	Taken bool  `json:"taken"`          // a consumer had a page in hand, which it has lost
	Lost  int64 `json:"lost"`           // messages that it was moved past
	Again int64 `json:"again"`          // messages that it had settled and that a replay delivers again
	More  bool  `json:"again_at_least"` // there may be more of these
}

// set says what has become of lanes, in place of what was said before, and what a replay before has done.
func (m *movedSubscription) set(lanes []outbox.Moved, replayed ...outbox.Moved) {
	m.Lanes, m.Lost, m.Again, m.AtLeast = []movedLane{}, 0, 0, false
	for _, l := range lanes {
		m.Lanes = append(m.Lanes, movedLane(l))
	}
	for _, l := range slices.Concat(lanes, replayed) {
		m.Lost, m.Again, m.AtLeast = m.Lost+l.Lost, m.Again+l.Again, m.AtLeast || l.More
	}
}

// again says how many messages are delivered again.
func (m *movedSubscription) again() string {
	text := plural(int(m.Again), "message") + " again"
	if m.AtLeast {
		return "at least " + text
	}
	return text
}

func newSubscriptionsChangeCommand(a *app) *cobra.Command {
	var s outbox.Subscription
	var from startFlag
	var k asking
	var keeps retentionFlags
	var allTopics, anyHeaders bool
	cmd := newCommand("change NAME [--topic TOPIC...]", "Set which messages a subscription has, its lanes, or its retention",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	selectFlags(flags, &s)
	keeps.addFlags(flags)
	flags.BoolVar(&allTopics, "all-topics", false, "messages of all topics, as --topic '*'")
	flags.BoolVar(&anyHeaders, "any-headers", false, "messages with any headers, or none")
	flags.Var(&from, "replay-from", "replay before, from this start on: then lanes can always be changed")
	cmd.MarkFlagsMutuallyExclusive("topic", "all-topics")
	cmd.MarkFlagsMutuallyExclusive("header", "any-headers")
	k.addFlags(flags, movedSubscription{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.Name = args[0]
		if allTopics {
			s.Topics = []string{"*"}
		}
		if anyHeaders {
			s.Headers = map[string]string{}
		}
		if err := keeps.set(&s); err != nil {
			return err
		}
		k.yes = k.yes || from.text == "" // without a replay nothing is lost or repeated
		return a.moveSubscription(cmd.Context(), subscriptionMove{verb: "change", done: "changed", name: s.Name,
			replays: from.text != "",
			run: func(d *database, box *outbox.Outbox, tx workqueue.Tx, m *movedSubscription) error {
				return changeSubscription(cmd.Context(), d, box, tx, s, from, m)
			}}, k)
	}
	return cmd
}

// changeSubscription changes a subscription, after a replay if there is a start.
func changeSubscription(ctx context.Context, d *database, box *outbox.Outbox, tx workqueue.Tx, s outbox.Subscription,
	from startFlag, m *movedSubscription) error {
	before, err := d.SubscriptionFilter(ctx, tx, s.Name)
	if err != nil {
		return err
	}
	var replayed []outbox.Moved
	if from.text != "" {
		if replayed, err = box.Replay(ctx, tx, s.Name, from.start); err != nil {
			return err
		}
	}
	lanes, err := box.ChangeSubscription(ctx, tx, s)
	if err != nil {
		return err
	}
	m.set(lanes, replayed...)
	after, err := d.SubscriptionFilter(ctx, tx, s.Name)
	m.Before, m.After = &before, &after
	return err
}

func newSubscriptionsReplayCommand(a *app) *cobra.Command {
	var from startFlag
	var k asking
	cmd := newCommand("replay NAME --start START", "Deliver a subscription's messages again, from a start on",
		cobra.ExactArgs(1))
	cmd.Flags().Var(&from, "start", startUsage)
	requiredFlags(cmd, "start")
	k.addFlags(cmd.Flags(), movedSubscription{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.moveSubscription(cmd.Context(), subscriptionMove{verb: "replay", done: "moved to " + from.text,
			name: args[0], replays: true,
			run: func(_ *database, box *outbox.Outbox, tx workqueue.Tx, m *movedSubscription) error {
				lanes, err := box.Replay(cmd.Context(), tx, args[0], from.start)
				m.set(lanes)
				return err
			}}, k)
	}
	return cmd
}

func newSubscriptionsCutCommand(a *app) *cobra.Command {
	var older age
	var before moment
	var k asking
	cmd := newCommand("cut NAME (--older-than AGE | --before TIME)", "Let a subscription pass over old messages",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.Var(&older, "older-than", "pass over messages that are older than this")
	flags.Var(&before, "before", "pass over messages from before this time, as RFC 3339 has it: 2026-03-01T08:30:00Z")
	cmd.MarkFlagsOneRequired("older-than", "before")
	cmd.MarkFlagsMutuallyExclusive("older-than", "before")
	k.addFlags(cmd.Flags(), movedSubscription{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.moveSubscription(cmd.Context(), subscriptionMove{verb: "cut", done: "cut", name: args[0],
			run: func(_ *database, box *outbox.Outbox, tx workqueue.Tx, m *movedSubscription) (err error) {
				var lanes []outbox.Moved
				if older.Given {
					lanes, err = box.Cut(cmd.Context(), tx, args[0], older.Duration)
				} else {
					lanes, err = box.CutBefore(cmd.Context(), tx, args[0], before.Time)
				}
				m.set(lanes)
				return err
			}}, k)
	}
	return cmd
}

// errDryRun rolls back what was only done to be counted.
var errDryRun = errors.New("dry run")

// rehearse does something in a transaction that is rolled back.
func (d *database) rehearse(ctx context.Context, do func(workqueue.Tx) error) error {
	err := d.Write(ctx, func(tx workqueue.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return errDryRun
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	return err
}

// afterRehearsal does something that cannot be undone: once to count, then it asks, and does it. A dry run only counts.
func (d *database) afterRehearsal(ctx context.Context, k asking, act operate.Act, do func(workqueue.Tx) error,
	question func() string) error {
	if k.dryRun || !k.yes {
		if err := d.rehearse(ctx, do); err != nil || k.dryRun {
			return err
		}
	}
	if err := d.app.confirm(ctx, k, question()); err != nil {
		return err
	}
	return d.Act(ctx, act, func(tx workqueue.Tx) (int, error) { return 1, do(tx) })
}

// subscriptionAct is a change of a subscription, for the audit.
func subscriptionAct(verb, name string) operate.Act {
	return operate.Act{Verb: verb, Target: postgres.LogTable, About: map[string]string{"subscription": name}}
}

// done says what was done, or in a dry run would be.
func (k asking) done(what string) string {
	if k.dryRun {
		return "would be " + what
	}
	return what
}

// A subscriptionMove is a verb that changes or moves the lanes of a subscription.
type subscriptionMove struct {
	verb, name string
	done       string // what has become of the subscription
	replays    bool   // messages are delivered again
	run        func(*database, *outbox.Outbox, workqueue.Tx, *movedSubscription) error
}

// moveSubscription moves a subscription, and says where its lanes go on and what they lost.
func (a *app) moveSubscription(ctx context.Context, move subscriptionMove, k asking) error {
	if err := k.check(); err != nil {
		return err
	}
	return a.withLog(ctx, func(d *database, box *outbox.Outbox) error {
		m := movedSubscription{Subscription: move.name, DryRun: k.dryRun}
		run := func(tx workqueue.Tx) error { return move.run(d, box, tx, &m) }
		err := d.afterRehearsal(ctx, k, subscriptionAct(move.verb, move.name), run, func() string {
			question := fmt.Sprintf("%s %s of subscription %s, which loses %s",
				strings.ToUpper(move.verb[:1])+move.verb[1:], plural(len(m.Lanes), "lane"), named(move.name),
				plural(int(m.Lost), "message"))
			if move.replays {
				question += " and gets " + m.again()
			}
			return question + "?"
		})
		if err != nil {
			return err
		}
		if k.json {
			return a.printJSON(m)
		}
		text := fmt.Sprintf("subscription %s %s: %s, %s lost", named(move.name), k.done(move.done),
			plural(len(m.Lanes), "lane"), plural(int(m.Lost), "message"))
		if move.replays {
			text += ", " + m.again()
		}
		if _, err = fmt.Fprintln(a.stdout, text); err != nil || m.After == nil {
			return err
		}
		return printFilters(a.stdout, *m.Before, *m.After)
	})
}

// A removedSubscription is what remove prints.
type removedSubscription struct {
	Subscription string `json:"subscription"` // its name
	Lanes        int    `json:"lanes"`        // number of lanes that it had
	Lost         int64  `json:"lost"`         // messages that it had not read, at least: of a long backlog, the beginning is counted
	Live         int64  `json:"parked"`       // parked messages that were deleted
	Dead         int64  `json:"dead_letters"` // dead letters that were deleted
	DryRun       bool   `json:"dry_run"`      // nothing was removed: this would be
}

func newSubscriptionsRemoveCommand(a *app) *cobra.Command {
	var k asking
	var parked bool
	cmd := newCommand("remove NAME", "Remove a subscription", cobra.ExactArgs(1))
	cmd.Flags().BoolVar(&parked, "parked", false, "delete its parked messages and dead letters, too")
	k.addFlags(cmd.Flags(), removedSubscription{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := k.check(); err != nil {
			return err
		}
		return a.withLog(cmd.Context(), func(d *database, box *outbox.Outbox) error {
			return a.removeSubscription(cmd.Context(), d, box, args[0], parked, k)
		})
	}
	return cmd
}

func (a *app) removeSubscription(ctx context.Context, d *database, box *outbox.Outbox, name string, parked bool,
	k asking) error {
	r := removedSubscription{Subscription: name, DryRun: k.dryRun}
	run := func(tx workqueue.Tx) error {
		u, err := box.Unsubscribe(ctx, tx, name, parked)
		r.Lanes, r.Lost, r.Live, r.Dead = u.Lanes, u.Lost, u.Live, u.Dead
		return err
	}
	with := func() string {
		return fmt.Sprintf("with at least %s not read, %s and %s", plural(int(r.Lost), "message"),
			plural(int(r.Live), "parked message"), plural(int(r.Dead), "dead letter"))
	}
	err := d.afterRehearsal(ctx, k, subscriptionAct("unsubscribe", name), run, func() string {
		return fmt.Sprintf("Remove subscription %s for good, %s?", named(name), with())
	})
	if err != nil {
		return err
	}
	if k.json {
		return a.printJSON(r)
	}
	_, err = fmt.Fprintf(a.stdout, "subscription %s %s, %s\n", named(name), k.done("removed"), with())
	return err
}
