package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func newSubscriptionsCommand(a *app) *cobra.Command {
	return newGroup("subscriptions", "Look at the subscriptions of an outbox that is a log, and change and move them",
		newSubscriptionsListCommand(a),
		newSubscriptionsAddCommand(a),
		newSubscriptionsChangeCommand(a),
		newSubscriptionPauseCommand(a, "pause", "Stop a subscription until it is resumed", "paused",
			(*outbox.Outbox).PauseSubscription),
		newSubscriptionPauseCommand(a, "resume", "Let a subscription go on that is paused or rests", "resumed",
			(*outbox.Outbox).ResumeSubscription),
		newSubscriptionsReplayCommand(a),
		newSubscriptionsCutCommand(a),
		newSubscriptionsRemoveCommand(a),
	)
}

// withLog connects and makes sure that the schema has a log.
func (a *app) withLog(ctx context.Context, do func(*database, *outbox.Outbox) error) error {
	return a.withOutbox(ctx, outbox.Options{Storage: outbox.Log}, "", func(d *database, box *outbox.Outbox) error {
		return inCommands(conclude(do(d, box)))
	})
}

// A commandError says what the library says in the words of the commands.
type commandError struct {
	error
	text string
}

func (e commandError) Error() string { return e.text }
func (e commandError) Unwrap() error { return e.error }

// inCommands replaces what the library calls otherwise than the commands do.
func inCommands(err error) error {
	if err == nil {
		return nil
	}
	text := ofCommands.Replace(err.Error())
	if text == err.Error() {
		return err
	}
	return commandError{err, text}
}

var ofCommands = strings.NewReplacer("outbox.Beginning", "beginning", "outbox.Now", "now", "deleteParked", "--parked",
	"replay to one place in the same transaction before", "pass --replay-from, which moves all to one place")

// A shownSubscription is a subscription, and how far it is behind.
type shownSubscription struct {
	Name      string            `json:"name"`
	Topics    []string          `json:"topics,omitempty"`  // topics, or beginnings with a *; missing: all
	Headers   map[string]string `json:"headers,omitempty"` // headers that its messages have; missing: any
	Paused    bool              `json:"paused"`            // no consumer gets a page
	Rest      *operate.Rest     `json:"rest,omitempty"`    // its destination is unavailable
	Live      int64             `json:"parked"`            // parked messages that have not ended
	Dead      int64             `json:"dead_letters"`      // parked messages that failed
	Lost      int64             `json:"lost"`              // messages that it was moved past, by cut or replay
	Lanes     []shownLane       `json:"lanes"`             // how far each of its lanes is behind
	CreatedAt time.Time         `json:"created_at"`
}

// A shownLane says how far a lane is behind.
type shownLane struct {
	Lane     int     `json:"lane"`              // number of the lane, from 0
	Messages int64   `json:"messages"`          // messages that are not settled, among the next 10000 of the log
	AtLeast  bool    `json:"messages_at_least"` // there may be more of them
	Oldest   float64 `json:"oldest_seconds"`    // how long ago the oldest of them was written
	InHand   bool    `json:"in_hand"`           // a consumer has a page of it
	Attempts int     `json:"attempts"`          // how many consumers have claimed its batch
	Retained int64   `json:"retained_bytes"`    // what the log keeps until the lane has passed it
}

// A subscriptionsList is what list prints.
type subscriptionsList struct {
	Subscriptions []shownSubscription `json:"subscriptions"` // in the order of their names
}

func newSubscriptionsListCommand(a *app) *cobra.Command {
	cmd := newCommand("list", "Show the subscriptions and how far they are behind", cobra.NoArgs)
	asJSON := jsonFlag(cmd, subscriptionsList{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withLog(cmd.Context(), func(d *database, box *outbox.Outbox) error {
			all := []shownSubscription{}
			err := d.readTx(cmd.Context(), func(tx workqueue.Tx, _ time.Time) error {
				list, err := box.Subscriptions(cmd.Context(), tx)
				for _, i := range list {
					all = append(all, newShownSubscription(i))
				}
				return err
			})
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(subscriptionsList{all})
			}
			return a.printSubscriptions(all)
		})
	}
	return cmd
}

func newShownSubscription(i outbox.SubscriptionInfo) shownSubscription {
	s := shownSubscription{Name: i.Name, Topics: i.Topics, Headers: i.Headers, Paused: i.Paused, Live: i.Live,
		Dead: i.Dead, Lost: i.Lost, CreatedAt: i.CreatedAt.UTC()}
	if !i.UnavailableSince.IsZero() {
		s.Rest = &operate.Rest{Unavailable: time.Since(i.UnavailableSince).Seconds(),
			Probe: max(time.Until(i.RestsUntil).Seconds(), 0), Cause: i.Cause}
	}
	for _, l := range i.Lanes {
		s.Lanes = append(s.Lanes, shownLane{l.Lane, l.Messages, l.More, l.Oldest.Seconds(), l.InHand, l.Attempts,
			l.Retained})
	}
	return s
}

func (a *app) printSubscriptions(all []shownSubscription) error {
	g := newGrid(a.stdout, "SUBSCRIPTION", "LANE", "TOPICS", "STATE", "MESSAGES", "OLDEST", "IN HAND", "PARKED",
		"DEAD", "LOST", "RETAINED")
	for _, s := range all {
		state := operate.Subscription{Paused: s.Paused, Rest: s.Rest}
		of := []string{fmt.Sprint(s.Live), fmt.Sprint(s.Dead), fmt.Sprint(s.Lost)} // the subscription
		for _, l := range s.Lanes {
			oldest := "-"
			if l.Messages > 0 {
				oldest = rough(time.Duration(l.Oldest * float64(time.Second)))
			}
			g.add(named(s.Name), fmt.Sprint(l.Lane), shownTopics(s.Topics), subscriptionState(&state),
				brief(l.Messages, l.AtLeast), oldest, yesOrDash(l.InHand), of[0], of[1], of[2], kilobytes(l.Retained))
			of = []string{"", "", ""} // only once
		}
	}
	if err := g.flush(); err != nil {
		return err
	}
	for _, s := range all {
		if s.Rest != nil {
			fmt.Fprintln(a.stdout, restLine(s.Name, s.Rest))
		}
	}
	return nil
}

// selectFlags are the flags that say which messages a subscription has.
func selectFlags(flags *pflag.FlagSet, s *outbox.Subscription) {
	flags.StringSliceVar(&s.Topics, "topic", nil, "only messages of this topic, or with a * at its end, of "+
		"topics that begin so; repeat for more (default: all, or as they are)")
	flags.StringToStringVar(&s.Headers, "header", nil, "only messages with this header, as `name=value`; "+
		"repeat for more (default: any, or as they are)")
	flags.IntVar(&s.Lanes, "lanes", 0, "how many consumers can read it at once (default: 1, or as it is)")
}

// A startFlag is the flag --start: a time, an age, now or beginning.
type startFlag struct {
	start outbox.Start
	text  string
}

const startUsage = "where it goes on: beginning, now, an age such as 36h or 14d, or a time as RFC 3339 has it"

func (f *startFlag) String() string { return f.text }

// Type implements pflag.Value.
func (f *startFlag) Type() string { return "start" }

// Set implements pflag.Value.
func (f *startFlag) Set(text string) error {
	f.text = text
	switch text {
	case "now":
		f.start = outbox.Now
		return nil
	case "beginning":
		f.start = outbox.Beginning
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if ago, not := input.Duration(text); not == nil {
		at, err = time.Now().Add(-ago), nil
	}
	if err != nil {
		return errors.New("want now, beginning, an age such as 36h or 14d, or a time with its zone such as " +
			"2027-03-01T08:30:00Z")
	}
	f.start = outbox.At(at)
	return nil
}

// An addedSubscription is what add prints.
type addedSubscription struct {
	Subscription string      `json:"subscription"` // its name
	Filter       shownFilter `json:"filter"`       // which messages it has, and where it begins
}

func newSubscriptionsAddCommand(a *app) *cobra.Command {
	var s outbox.Subscription
	from := startFlag{text: "now"}
	cmd := newCommand("add NAME [--topic TOPIC...]", "Make a subscription", cobra.ExactArgs(1))
	selectFlags(cmd.Flags(), &s)
	cmd.Flags().Var(&from, "start", startUsage)
	asJSON := jsonFlag(cmd, addedSubscription{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.Name, s.From = args[0], from.start
		return a.withLog(cmd.Context(), func(d *database, box *outbox.Outbox) error {
			var f shownFilter
			err := d.Act(cmd.Context(), subscriptionAct("subscribe", s.Name), func(tx workqueue.Tx) (n int, err error) {
				if err = box.Subscribe(cmd.Context(), tx, s); err == nil {
					f, err = d.filterOf(cmd.Context(), tx, s.Name)
				}
				return 1, err
			})
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(addedSubscription{s.Name, f})
			}
			fmt.Fprintf(a.stdout, "subscription %s added: %s\n", named(s.Name), f.begin())
			return f.printMatching(a.stdout)
		})
	}
	return cmd
}

// A pausedSubscription is what pause and resume print.
type pausedSubscription struct {
	Subscription string `json:"subscription"` // its name
	Changed      bool   `json:"changed"`      // it was not so before
	Paused       bool   `json:"paused"`
}

func newSubscriptionPauseCommand(a *app, verb, short, done string,
	change func(*outbox.Outbox, context.Context, workqueue.Tx, string) (bool, error)) *cobra.Command {
	cmd := newCommand(verb+" NAME", short, cobra.ExactArgs(1))
	asJSON := jsonFlag(cmd, pausedSubscription{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withLog(cmd.Context(), func(d *database, box *outbox.Outbox) error {
			var changed bool
			err := d.Act(cmd.Context(), subscriptionAct(verb, args[0]), func(tx workqueue.Tx) (n int, err error) {
				changed, err = change(box, cmd.Context(), tx, args[0])
				return one(changed, err)
			})
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(pausedSubscription{args[0], changed, done == "paused"})
			}
			hint := ""
			if !changed {
				hint = " (as it was before)"
			}
			_, err = fmt.Fprintf(a.stdout, "subscription %s %s%s\n", named(args[0]), done, hint)
			return err
		})
	}
	return cmd
}

// A movedSubscription is what change, replay and cut print.
type movedSubscription struct {
	Subscription string      `json:"subscription"`   // its name
	Lanes        []movedLane `json:"lanes"`          // those that were changed or moved
	Lost         int64       `json:"lost"`           // messages that they were moved past
	Again        int64       `json:"again"`          // messages that it had settled and that a replay delivers again, of the first 100000 of the log
	AtLeast      bool        `json:"again_at_least"` // there may be more of these
	DryRun       bool        `json:"dry_run"`        // nothing was changed: this would be

	Before *shownFilter `json:"before,omitempty"` // which messages it had before a change
	After  *shownFilter `json:"after,omitempty"`  // and which it has
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
	var allTopics, anyHeaders bool
	cmd := newCommand("change NAME [--topic TOPIC...]", "Set which messages a subscription has, or its lanes",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	selectFlags(flags, &s)
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
	before, err := d.filterOf(ctx, tx, s.Name)
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
	after, err := d.filterOf(ctx, tx, s.Name)
	m.Before, m.After = &before, &after
	return err
}

func newSubscriptionsReplayCommand(a *app) *cobra.Command {
	var from startFlag
	var k asking
	cmd := newCommand("replay NAME --start START", "Deliver a subscription's messages again, from a start on",
		cobra.ExactArgs(1))
	cmd.Flags().Var(&from, "start", startUsage)
	cmd.MarkFlagRequired("start")
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
	flags.Var(&before, "before", "pass over messages from before this time, as RFC 3339 has it: 2027-03-01T08:30:00Z")
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
