package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

func newInboxCommand(a *app) *cobra.Command {
	return newGroup("inbox", "Look at the topics of consumers, pause and resume them",
		newTopicsCommands(a, "inbox", "CONSUMER TOPIC")...)
}

// newTopicsCommands makes the commands about the topics of a table. Usage names the arguments that name a topic.
func newTopicsCommands(a *app, table, usage string) []*cobra.Command {
	return []*cobra.Command{
		newTopicsCommand(a, table),
		newTopicChangeCommand(a, table, usage, "pause", "Stop workers from taking messages of a topic", "paused",
			topics.Pause),
		newTopicChangeCommand(a, table, usage, "resume", "Let workers take messages of a paused topic again", "resumed",
			topics.Resume),
	}
}

// withTopics connects and makes sure that the table exists.
func (a *app) withTopics(ctx context.Context, table string, do func(*database, *workqueue.Table) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		spec := outbox.Spec(d.Schema)
		if table == "inbox" {
			spec = inbox.Spec(d.Schema)
		}
		t, err := workqueue.Open(spec, a.telemetry())
		if err != nil {
			return usageError{err}
		}
		if err := t.CheckVersion(ctx, d.Pool); err != nil {
			if table == "outbox" {
				return d.hasLogOnly(ctx, err, d.ofSubscriptions())
			}
			return err
		}
		return d.looking(ctx, func() error { return conclude(do(d, t)) }, t)
	})
}

// A shownTopic is the state of a topic.
type shownTopic struct {
	Consumer  string     `json:"consumer,omitempty"`   // in the inbox, whose consumers have topics of their own
	Topic     string     `json:"topic"`                // its name
	Paused    bool       `json:"paused"`               // no worker takes messages of it
	ChangedAt *time.Time `json:"changed_at,omitempty"` // when it was paused or resumed last
	Aside     int64      `json:"aside"`                // due messages that are set aside
	AtLeast   bool       `json:"aside_at_least"`       // there may be more of them: 10000 are counted in all topics together
	Oldest    float64    `json:"oldest_seconds"`       // how long the first of them has been due

	Unavailable *time.Time `json:"unavailable_since,omitempty"` // since when its destination cannot be reached
	RestsUntil  *time.Time `json:"rests_until,omitempty"`       // when a message may probe the destination
	Cause       string     `json:"cause,omitempty"`             // what was said of the destination last
}

// A topicsList is what topics prints.
type topicsList struct {
	Topics  []shownTopic `json:"topics"`            // those that are paused, rest or have messages aside
	Partial bool         `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

func newTopicsCommand(a *app, table string) *cobra.Command {
	cmd := newCommand("topics", "Show the topics that are paused, rest or have messages aside", noArguments)
	asJSON := jsonFlag(cmd, topicsList{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withTopics(cmd.Context(), table, func(d *database, t *workqueue.Table) error {
			all := []shownTopic{}
			err := d.readTx(cmd.Context(), func(tx workqueue.Tx, _ time.Time) error {
				list, err := topics.List(cmd.Context(), tx, t)
				for _, i := range list {
					all = append(all, newShownTopic(i))
				}
				return err
			})
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(topicsList{all, d.Partial})
			}
			return a.printTopics(all, table == "inbox")
		})
	}
	return cmd
}

func newShownTopic(i topics.Info) shownTopic {
	s := shownTopic{Consumer: i.Lane, Topic: i.Topic, Paused: i.Paused, Aside: i.Aside, AtLeast: i.More,
		Oldest: i.Oldest.Seconds()}
	if !i.ChangedAt.IsZero() {
		changed := i.ChangedAt.UTC()
		s.ChangedAt = &changed
	}
	if !i.UnavailableSince.IsZero() {
		since, until := i.UnavailableSince.UTC(), i.RestsUntil.UTC()
		s.Unavailable, s.RestsUntil, s.Cause = &since, &until, i.Cause
	}
	return s
}

func (a *app) printTopics(all []shownTopic, consumers bool) error {
	columns := []string{"TOPIC", "PAUSED", "UNAVAILABLE", "ASIDE", "OLDEST"}
	if consumers {
		columns = append([]string{"CONSUMER"}, columns...)
	}
	g := newGrid(a.stdout, columns...)
	for _, s := range all {
		unavailable, oldest := "-", "-"
		if s.Unavailable != nil {
			unavailable = stamp(*s.Unavailable, time.Now())
		}
		if s.Aside > 0 {
			oldest = rough(time.Duration(s.Oldest * float64(time.Second)))
		}
		cells := []string{named(s.Topic), yesOrDash(s.Paused), unavailable, brief(s.Aside, s.AtLeast), oldest}
		if consumers {
			cells = append([]string{named(s.Consumer)}, cells...)
		}
		g.add(cells...)
	}
	return g.flush()
}

// topicAct is a change of a topic, for the audit.
func topicAct(verb string, t *workqueue.Table, k topics.Key) operate.Act {
	about := map[string]string{"topic": k.Topic}
	if k.Lane != "" {
		about["consumer"] = k.Lane
	}
	return operate.Act{Verb: verb, Target: t.Spec().Table, About: about}
}

// one is how many rows a change of one thing has changed.
func one(changed bool, err error) (int, error) {
	if !changed {
		return 0, err
	}
	return 1, err
}

// A changedTopic is what pause and resume print.
type changedTopic struct {
	Consumer string `json:"consumer,omitempty"` // in the inbox
	Topic    string `json:"topic"`
	Changed  bool   `json:"changed"`           // it was not so before
	Paused   bool   `json:"paused,omitempty"`  // set by pause
	Resumed  bool   `json:"resumed,omitempty"` // set by resume
}

func newTopicChangeCommand(a *app, table, usage, verb, short, done string,
	change func(context.Context, workqueue.Tx, *workqueue.Table, topics.Key) (bool, error)) *cobra.Command {
	arguments := strings.Fields(usage)
	cmd := newCommand(verb+" "+usage, short, cobra.ExactArgs(len(arguments)))
	asJSON := jsonFlag(cmd, changedTopic{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k := topics.Key{Topic: args[len(args)-1]}
		if len(args) > 1 {
			k.Lane = args[0]
		}
		return a.withTopics(cmd.Context(), table, func(d *database, t *workqueue.Table) error {
			var changed bool
			err := d.Act(cmd.Context(), topicAct(verb, t, k), func(tx workqueue.Tx) (n int, err error) {
				changed, err = change(cmd.Context(), tx, t, k)
				return one(changed, err)
			})
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(changedTopic{k.Lane, k.Topic, changed, done == "paused", done == "resumed"})
			}
			hint := ""
			if !changed {
				hint = " (as it was before)"
			}
			_, err = fmt.Fprintf(a.stdout, "topic %s %s%s\n", names(given(k.Lane, k.Topic)...), done, hint)
			return err
		})
	}
	return cmd
}
