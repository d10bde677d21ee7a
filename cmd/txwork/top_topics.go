package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// A topTopic is a topic that is paused, whose destination is unavailable, or that has rows that wait in its lane.
type topTopic struct {
	Table   string   `json:"table"`
	Lane    string   `json:"lane,omitempty"` // of a topic in the inbox: the consumer
	Topic   string   `json:"topic"`
	Paused  bool     `json:"paused"`
	Aside   int64    `json:"aside"`                     // rows that wait in the lane of the topic
	AtLeast bool     `json:"aside_at_least"`            // there may be more of them
	Oldest  float64  `json:"oldest_seconds"`            // how long the first of them has been due
	Changed *float64 `json:"changed_seconds,omitempty"` // how long ago it was paused or resumed

	Unavailable *float64 `json:"unavailable_seconds,omitempty"` // how long its destination has been unavailable
	Cause       string   `json:"cause,omitempty"`               // what was said of that last
}

// topics adds the topics of a table to the frame. The frame already has its parts, which are topics if the table has no
// lanes.
func (f *topFrame) topics(ctx context.Context, r survey.Reader, t *survey.Facts) {
	list, more, err := survey.Topics(ctx, r, t)
	failed := f.skip("topics of "+t.Name, err)
	shown := min(len(list), topGroups)
	f.More.Topics.add(int64(len(list)-shown), more || failed || t.Filtered)
	for i, s := range list {
		if i < shown {
			f.Topics = append(f.Topics, topTopic{t.Name, s.Lane, s.Topic, s.Paused, s.Aside, s.More || t.Filtered,
				max(s.Oldest, 0), s.Changed, s.Unavailable, s.Cause})
		}
		for i, q := range f.Queues {
			if q.pausable() && q.Table == t.Name && q.Name == s.Topic {
				f.Queues[i].Paused = s.Paused
			}
		}
	}
}

// pausable tells whether the line is a topic that can be paused. Of other tables than ours it is not known which column
// has the topic.
func (q topQueue) pausable() bool { return q.Table == "outbox" && q.By == "topic" }

func (f *topFrame) topicTable() topTable {
	t := topTable{title: "TOPICS that are paused or unavailable, or whose rows wait for room", rest: f.More.Topics}
	t.columns = []topColumn{
		{head: "TABLE", left: true}, {head: "TOPIC", left: true, grows: true}, {head: "STATE", left: true},
		{head: "ASIDE"}, {head: "OLDEST"}, {head: "SINCE", left: true},
	}
	for _, s := range f.Topics {
		r := topRow{item: s.key(), cells: []string{s.Table, s.name(), "behind", brief(s.Aside, s.AtLeast),
			"-", "-"}}
		switch {
		case s.Paused:
			r.cells[2] = "paused"
			if s.Changed != nil {
				r.cells[5] = rough(max(seconds(*s.Changed), 0)) + " ago"
			}
		case s.Unavailable != nil:
			r.cells[2], r.cells[5] = "unavailable", rough(max(seconds(*s.Unavailable), 0))+" ago"
		}
		if s.Aside > 0 {
			r.cells[4], r.style = rough(seconds(s.Oldest)), warning
		}
		t.rows = append(t.rows, r)
	}
	return t
}

// name is the topic with the consumer that it belongs to, if there is one.
func (s topTopic) name() string {
	if s.Lane == "" {
		return named(s.Topic)
	}
	return names(s.Lane, s.Topic)
}

func (s topTopic) key() string { return "topic " + s.Table + " " + s.name() }

func (s topTopic) filter() operate.Filter { return operate.Filter{Consumer: s.Lane, Topic: s.Topic} }

// topic returns the topic under the cursor, if there is one.
func (m *topModel) topic() (topTopic, bool) {
	if m.frame == nil || m.rows != nil {
		return topTopic{}, false
	}
	for _, s := range m.frame.Topics {
		if s.key() == m.cursor {
			return s, true
		}
	}
	if q, ok := m.queue(); ok && q.pausable() {
		return topTopic{Table: q.Table, Topic: q.Name, Paused: q.Paused}, true
	}
	return topTopic{}, false
}

// pauseTopic asks whether to pause a topic, or to resume it.
func (m *topModel) pauseTopic(s topTopic) topCommand {
	if _, known := domains[s.Table]; !known {
		_, resume := postgres.ResumeTopic(m.db.Schema, s.Table, s.Lane, s.Topic)
		m.message = harmless("a table of your own has functions for that: " + resume)
		return nil
	}
	change, verb, done := topics.Pause, "Pause", "paused"
	if s.Paused {
		change, verb, done = topics.Resume, "Resume", "resumed"
	}
	db := m.db
	m.asking = &topAsking{fmt.Sprintf("%s topic %s of %s?", verb, s.name(), s.Table),
		func(ctx context.Context, _ func(string)) topChange {
			t, err := db.table(ctx, s.Table)
			if err == nil {
				k := topics.Key{Lane: s.Lane, Topic: s.Topic}
				err = db.Act(ctx, topicAct(strings.ToLower(verb), t, k), func(tx workqueue.Tx) (int, error) {
					return one(change(ctx, tx, t, k))
				})
			}
			if err != nil {
				return failed(err)
			}
			return say("topic %s %s", s.name(), done)
		}}
	return nil
}
