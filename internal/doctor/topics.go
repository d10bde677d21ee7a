package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

// asideTopics are the topics of a table with rows that have been aside for longer than a threshold, by their state.
type asideTopics struct {
	list map[string][]survey.Topic
	more bool // there may be more than were looked at
	err  error
}

// topicsAside returns the topics in a state, how many there are, and whether there may be more than are looked at.
// Those in all states are read once.
func (x *examination) topicsAside(ctx context.Context, t *table, state string) (list []survey.Topic, n int64, more bool,
	err error) {
	if t.aside == nil {
		t.aside = &asideTopics{}
		t.aside.list, t.aside.more, t.aside.err = survey.TopicsAside(ctx, x.reader(), &t.Facts, x.Thresholds.Backlog,
			maxShown)
	}
	if list = t.aside.list[state]; len(list) > 0 {
		n = list[0].Topics
	}
	if t.aside.more {
		x.skip(ctx, x.current.code, t.Name, upTo(survey.MaxTopics, "topics that are paused, rest or have rows aside"))
	}
	return list, n, t.aside.more, t.aside.err
}

// topic names a topic of a table, with the lane that has topics of its own.
func (t *table) topic(s survey.Topic) string {
	if s.Lane == "" {
		return fmt.Sprintf("%s, topic %s", t.Name, postgres.Name(s.Topic))
	}
	return fmt.Sprintf("%s, %s %s, topic %s", t.Name, t.LaneNames[0], postgres.Name(s.Lane),
		postgres.Name(s.Topic))
}

func (t *table) topicEvidence(s survey.Topic) []Evidence {
	return []Evidence{evidence("lane", s.Lane, "topic", s.Topic, "aside_at_least", s.Aside, "oldest_seconds",
		seconds(s.Oldest))}
}

func pausedTopics(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	list, n, more, err := x.topicsAside(ctx, t, survey.TopicPaused)
	for _, s := range list {
		args, statement := postgres.ResumeTopic(x.Schema, t.Name, s.Lane, s.Topic)
		f := Finding{
			Title: fmt.Sprintf("%s: the topic is paused; %s aside, the oldest due for %s", t.topic(s),
				counted(s.Aside, s.More, "row"), rough(seconds(s.Oldest))),
			Evidence: t.topicEvidence(s),
			Remedy: Remedy{
				Do:  "Resume the topic once the reason for the pause is gone.",
				SQL: []string{statement},
			},
		}
		if len(args) > 0 {
			f.Remedy.Commands = []string{x.command(args...)}
		}
		all = append(all, f)
	}
	return t.shown(all, n, more, "paused topic"), err
}

func unavailableTopics(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	list, n, more, err := x.topicsAside(ctx, t, survey.TopicUnavailable)
	for _, s := range list {
		first, _, _ := strings.Cut(s.Cause, "\n")
		f := Finding{
			Title: fmt.Sprintf("%s: the destination has been unavailable for %s; %s aside, the oldest due for %s",
				t.topic(s), rough(seconds(*s.Unavailable)), counted(s.Aside, s.More, "row"), rough(seconds(s.Oldest))),
			Evidence: []Evidence{evidence("lane", s.Lane, "topic", s.Topic, "aside_at_least", s.Aside, "oldest_seconds",
				seconds(s.Oldest), "unavailable_seconds", seconds(*s.Unavailable), "cause", first)},
			Remedy: Remedy{
				Do: "Bring the destination back, or correct where the handlers look for it. The topic then goes on " +
					"by itself: a row probes it at least every ten seconds. If none does, no worker runs. These show " +
					"what runs:",
				Commands: []string{x.command("list", t.Name, "--status", "in_progress")},
			},
		}
		all = append(all, f)
	}
	return t.shown(all, n, more, "topic with an unavailable destination"), err
}

func topicsBehind(ctx context.Context, x *examination, t *table) (all []Finding, err error) {
	list, n, more, err := x.topicsAside(ctx, t, survey.TopicBehind)
	for _, s := range list {
		all = append(all, Finding{
			Title: fmt.Sprintf("%s: %s aside, the oldest due for %s, although the topic is not paused", t.topic(s),
				counted(s.Aside, s.More, "row"), rough(seconds(s.Oldest))),
			Evidence: t.topicEvidence(s),
			Remedy: Remedy{
				Do: "Find out what the handlers of the topic wait for. Give them a shorter timeout, or the workers more " +
					"places; without a worker, start one. These show what runs:",
				Commands: []string{x.command("list", t.Name, "--status", "in_progress")},
			},
		})
	}
	return t.shown(all, n, more, "lagging topic"), err
}
