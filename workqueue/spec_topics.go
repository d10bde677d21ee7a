package workqueue

import (
	"slices"
	"time"

	"github.com/txwork/txwork/workqueue/internal/aside"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// Topics say to which topic a row belongs. An operator can pause a topic, and a worker gives each no more than a share
// of its places. The table then has a side table, <schema>.<table>_topic, with a row for each topic that was ever
// paused, and the functions <table>_pause and <table>_resume.
type Topics struct {
	// Columns have a row's topic: the first of them that is neither NULL nor empty. Their type is text. Of a longer
	// topic than can be paused, the first 255 characters count.
	Columns []string

	// Lane is one of Spec.Lanes, of type text, if each of its values has topics of its own, as each consumer of an
	// inbox has. A claim is then of one of its values. Default: a topic is the same in all lanes.
	Lane string
}

// maxTopic is how many bytes the name of a topic with a state has. Topics are indexed.
const maxTopic = 255

// maxAside is how many rows one claim sets aside.
const maxAside = 1000

// lookForTopicsEvery is how often an idle worker looks for rows that were set aside, such as by a process that has died
// since.
const lookForTopicsEvery = 5 * time.Second

// topicPayload is the notification of a changed state of a topic.
const topicPayload = "topic"

func (s Spec) hasTopics() bool { return len(s.Topics.Columns) > 0 }

func (s Spec) validateTopics() error {
	if !s.hasTopics() {
		if s.Topics.Lane != "" {
			return invalid("topics", "have a lane and no columns")
		}
		return nil
	}
	for _, name := range s.Topics.Columns {
		if c, ok := s.column(name); !ok || c.Type != "text" || c.Internal {
			return invalid("topics", "%q is no column of type text", name)
		}
	}
	if c, _ := s.column(s.Topics.Lane); s.Topics.Lane != "" && (c.Type != "text" || !slices.Contains(s.Lanes, c.Name)) {
		return invalid("topics", "%q is none of the lanes %v of type text", s.Topics.Lane, s.Lanes)
	}
	if s.Admission != "" {
		return invalid("topics", "are not for a table whose claims ask rules (Admission)")
	}
	for _, name := range []string{aside.Column, "busy", "open", "open_due", "open_id", "room", "asks"} {
		if _, taken := s.column(name); taken {
			return invalid("column", "%q is a name that a table with topics needs", name)
		}
	}
	return nil
}

// topicColumns are the places of the columns with the topic among those that a claim returns.
func (s Spec) topicColumns() (places []int) {
	for _, name := range s.Topics.Columns {
		places = append(places, slices.IndexFunc(s.claimed(), func(c Column) bool { return c.Name == name }))
	}
	return places
}

// pickTopic is the first of the values that is not empty, as TopicOf in SQL.
func pickTopic(columns []int, values []any) (topic string) {
	for _, c := range columns {
		if topic = telemetry.LabelText(values[c]); topic != "" {
			break
		}
	}
	if len(topic) > maxTopic {
		if all := []rune(topic); len(all) > maxTopic {
			return string(all[:maxTopic])
		}
	}
	return topic
}
