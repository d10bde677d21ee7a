package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/operate"
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
	Lost      int64             `json:"lost"`              // messages that it was moved past, by cut, replay or its retention
	Lanes     []shownLane       `json:"lanes"`             // how far each of its lanes is behind
	CreatedAt time.Time         `json:"created_at"`

	operate.Retention
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
	cmd := newCommand("list", "Show the subscriptions and how far they are behind", noArguments)
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
		Dead: i.Dead, Lost: i.Lost, CreatedAt: i.CreatedAt.UTC(),
		Retention: operate.Retention{MaxAge: i.MaxAge.Seconds(), MaxMessages: i.MaxMessages}}
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
		"DEAD", "LOST", "KEEPS", "RETAINED")
	for _, s := range all {
		state := operate.Subscription{Paused: s.Paused, Rest: s.Rest}
		of := []string{fmt.Sprint(s.Live), fmt.Sprint(s.Dead), fmt.Sprint(s.Lost), // the subscription
			shownRetention(s.Retention)}
		for _, l := range s.Lanes {
			oldest := "-"
			if l.Messages > 0 {
				oldest = rough(time.Duration(l.Oldest * float64(time.Second)))
			}
			g.add(named(s.Name), fmt.Sprint(l.Lane), shownTopics(s.Topics), subscriptionState(&state),
				brief(l.Messages, l.AtLeast), oldest, yesOrDash(l.InHand), of[0], of[1], of[2], of[3],
				kilobytes(l.Retained))
			of = []string{"", "", "", ""} // only once
		}
	}
	if err := g.flush(); err != nil {
		return err
	}
	for _, s := range all {
		printRest(a.stdout, s.Name, s.Rest)
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

// A retentionFlags is the flags that bound how far a subscription may be behind.
type retentionFlags struct {
	age      age
	messages int64
	flags    *pflag.FlagSet
}

func (r *retentionFlags) addFlags(flags *pflag.FlagSet) {
	r.flags = flags
	flags.Var(&r.age, "max-age", "give up messages that are older than this, at most 7d; 0: none (default: none, or "+
		"as it is)")
	flags.Int64Var(&r.messages, "max-messages", 0, "give up messages behind which the log has more than this; 0: "+
		"none (default: none, or as it is)")
}

// set sets the retention of a subscription: 0 as a flag is none, which is negative in Go.
func (r *retentionFlags) set(s *outbox.Subscription) error {
	if r.messages < 0 {
		return usagef("--max-messages is %d, it cannot be negative", r.messages)
	}
	s.MaxAge, s.MaxMessages = r.age.Duration, r.messages
	if r.age.Given && s.MaxAge == 0 {
		s.MaxAge = -1
	}
	if r.flags.Changed("max-messages") && s.MaxMessages == 0 {
		s.MaxMessages = -1
	}
	return nil
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
	Subscription string                     `json:"subscription"` // its name
	Filter       operate.SubscriptionFilter `json:"filter"`       // which messages it has, and where it begins
}

func newSubscriptionsAddCommand(a *app) *cobra.Command {
	var s outbox.Subscription
	var keeps retentionFlags
	from := startFlag{text: "now"}
	cmd := newCommand("add NAME [--topic TOPIC...]", "Make a subscription", cobra.ExactArgs(1))
	selectFlags(cmd.Flags(), &s)
	keeps.addFlags(cmd.Flags())
	cmd.Flags().Var(&from, "start", startUsage)
	asJSON := jsonFlag(cmd, addedSubscription{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.Name, s.From = args[0], from.start
		if err := keeps.set(&s); err != nil {
			return err
		}
		return a.withLog(cmd.Context(), func(d *database, box *outbox.Outbox) error {
			var f operate.SubscriptionFilter
			err := d.Act(cmd.Context(), subscriptionAct("subscribe", s.Name), func(tx workqueue.Tx) (n int, err error) {
				if err = box.Subscribe(cmd.Context(), tx, s); err == nil {
					f, err = d.SubscriptionFilter(cmd.Context(), tx, s.Name)
				}
				return 1, err
			})
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(addedSubscription{s.Name, f})
			}
			fmt.Fprintf(a.stdout, "subscription %s added: %s\n", named(s.Name), begin(f))
			return printMatching(a.stdout, f)
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
