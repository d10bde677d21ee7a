package workqueue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/aside"
)

// HasTopics reports whether the table has topics.
func (v view) HasTopics() bool { return v.spec.hasTopics() }

// TopicOf is the topic of a row. Its length is bounded, since SQL can write a topic that no index bears, and claims put
// rows into the index of those that are aside.
func (v view) TopicOf(row string) string {
	last := len(v.spec.Topics.Columns) - 1
	topic := prefixed(row, quote(v.spec.Topics.Columns[last]))
	if last > 0 {
		columns := make([]string, last)
		for i, name := range v.spec.Topics.Columns[:last] {
			columns[i] = "nullif(" + prefixed(row, quote(name)) + ", '')"
		}
		topic = "coalesce(" + strings.Join(columns, ", ") + ", " + topic + ")"
	}
	return fmt.Sprintf("left(%s, %d)", topic, maxTopic)
}

// TopicLane is the lane whose values have topics of their own, if there is one.
func (v view) TopicLane() []columnView {
	if v.spec.Topics.Lane == "" {
		return nil
	}
	return v.pick([]string{v.spec.Topics.Lane})
}

// LaneOf is the value of that lane, as text.
func (v view) LaneOf(row string) string {
	for _, lane := range v.TopicLane() {
		return row + "." + lane.Quoted + "::text"
	}
	return "''::text"
}

// TopicLaneArgument is the parameter of claim_by_topic with the values of that lane.
func (v view) TopicLaneArgument() string {
	return fmt.Sprintf("$%d", 6+slices.Index(v.spec.Lanes, v.spec.Topics.Lane))
}

// TopicArgument is the number of the parameter topic of pause and resume.
func (v view) TopicArgument() int { return 1 + len(v.TopicLane()) }

// OpenArgument is the number of a parameter of claim_by_topic after those of the lanes.
func (v view) OpenArgument(i int) int { return 6 + len(v.Lanes) + i }

// IsAside is the condition of rows that are set aside, in the lanes of the claim's topics.
func (v view) IsAside(row string) string {
	is := row + ".completed_at IS NULL AND " + row + "." + aside.Column + " AND " + row + ".status = 0"
	for _, lane := range v.TopicLane() {
		is += " AND " + row + "." + lane.Quoted + " = own.topic_lane"
	}
	return is
}

// AsideOrder is the order of such rows.
func (v view) AsideOrder(row string) string {
	var order string
	for _, lane := range v.TopicLane() {
		order += row + "." + lane.Quoted + ", "
	}
	return order + v.TopicOf(row) + ", " + row + ".due_at, " + row + ".id"
}

// SeesTopics refuses roles that do not see the state of all topics.
func (v view) SeesTopics() string { return sqltext.SeesShared(v.Function("topic")) }

// SeesAllTopics refuses roles that do not see all rows, or not the state of all topics.
func (v view) SeesAllTopics() string { return sqltext.SeesAll(v.Table, v.Function("topic")) }

// ChecksTopic refuses arguments of pause and resume that cannot name a topic.
func (v view) ChecksTopic() string {
	check := ""
	for _, lane := range v.TopicLane() {
		check += sqltext.RefuseUnless("$1 <> ''", lane.Name, "must not be empty", "Name the "+lane.Name+
			" whose topic it is.") + "\n    "
	}
	return check + sqltext.Sized(fmt.Sprintf("$%d", v.TopicArgument()), "topic", maxTopic,
		"Name a topic as its rows have it.")
}

// Unavailable is the view for putting rows back whose destination is unavailable.
func (v view) Unavailable() view {
	v.IsUnavailable = true
	return v
}

// Rests reports that the topics of such rows rest.
func (v view) Rests() bool { return v.IsUnavailable && v.HasTopics() }

// MayRest is the condition that the topic of a row can rest: its name can have a state, and the role may decide for the
// rows of all.
func (v view) MayRest(row string) string {
	return fmt.Sprintf("coalesce(octet_length(%s) BETWEEN 1 AND %d, false)\n        AND NOT (%s)", v.TopicOf(row),
		maxTopic, v.HidesTopics())
}

// HidesTopics is the condition that row-level security hides rows, or the states of topics, from the role.
func (v view) HidesTopics() string { return sqltext.Hides(v.Table, v.Function("topic")) }

// MayProbe is the condition that a row may probe the destination of the topic that sort_out.sql looks at.
func (v view) MayProbe(row string) string {
	return fmt.Sprintf("%s AND %s = own.next AND %s.due_at <= own.began", v.IsAside(row), v.TopicOf(row), row)
}

// Begun is the topic whose rest a row has begun; NULL for all others.
func (v view) Begun() string {
	if !v.Rests() {
		return "NULL::text AS begun"
	}
	return "CASE WHEN state.begun THEN changed.topic END AS begun"
}

// FirstRest and LongestRest are the rests of a topic whose row does not say otherwise.
func (view) FirstRest() string   { return restOf(outage.FirstRest) }
func (view) LongestRest() string { return restOf(outage.LongestRest) }

func restOf(d time.Duration) string { return fmt.Sprintf("interval '%d ms'", d.Milliseconds()) }

// NextRest is how long the topic p rests next.
func (view) NextRest() string {
	return "CASE WHEN p.unavailable_since IS NULL THEN p.first_rest ELSE least(2 * p.rest, p.longest_rest) END"
}

// RestEnd is when a rest of a length ends, less the jitter.
func (view) RestEnd(rest string) string {
	return fmt.Sprintf("clock_timestamp() + (%s) * (1 - %g * random())", rest, outage.RestJitter)
}

// RestIsOver is the condition that a claim which began at a time may probe the destination of a topic. A rest that is
// to end later than the longest one would was written before the clock went back.
func (view) RestIsOver(topic, began string) string {
	return fmt.Sprintf("(%[1]s.rests_until <= %[2]s OR %[1]s.rests_until > clock_timestamp() + %[1]s.longest_rest)",
		topic, began)
}

// TopicLock is the key of the advisory lock of a topic, whose columns have a prefix, or are parameters.
func (v view) TopicLock(prefix string) string {
	names := []string{"'" + v.Function("topic") + "'"}
	if prefix == "$" {
		for i := range v.TopicArgument() {
			names = append(names, fmt.Sprintf("$%d", i+1))
		}
	} else {
		for _, lane := range v.TopicLane() {
			names = append(names, prefix+lane.Quoted)
		}
		names = append(names, prefix+"topic")
	}
	return "hashtextextended(concat_ws(' ', " + strings.Join(names, ", ") + "), 0)"
}

// MaxAside, MaxTopic and TopicPayload are the constants for the templates.
func (view) MaxAside() int        { return maxAside }
func (view) MaxTopic() int        { return maxTopic }
func (view) TopicPayload() string { return topicPayload }

// byTopic are the arguments of a statement inside of claim_by_topic or fetch.
func (v view) byTopic() map[string]string {
	expressions := map[string]string{
		"owner_token": "$1", "lease": "$2", "batch_size": "own.batch", "after_due": "own.reached",
		"after_id": "own.reached_id",
	}
	if v.HasTopics() {
		expressions["batch_size"] = "own.want"
	}
	for i, lane := range v.Lanes {
		if expressions[lane.Param] = fmt.Sprintf("$%d", i+6); v.Fetches {
			expressions[lane.Param] = laneVariable(i)
		}
	}
	return expressions
}

// Candidates selects the rows that a claim by topic, or a fetch, looks at.
func (v view) Candidates() string {
	v.ByTopic, v.Places, v.Now = v.HasTopics(), true, "own.began"
	return v.replaced(v.template("candidates", v), "candidates", v.byTopic())
}

// Claimed claims rows by their ctid inside of claim_by_topic or fetch, and may change more of them.
func (v view) Claimed(taken, alsoSet string) string {
	v.WholeRows, v.Taken, v.AlsoSet = true, taken, alsoSet
	return v.inline("claim", v.byTopic())
}

// TopicFunctions are the functions of a table with topics.
func (v view) TopicFunctions() []sqlFunction {
	key := []sqlParam{{name: "topic", typ: "text"}}
	claim := []sqlParam{{typ: "uuid"}, {typ: "interval"}, {typ: "integer"}, {typ: "timestamptz[]"}, {typ: "uuid[]"}}
	for _, lane := range v.TopicLane() {
		key = append([]sqlParam{{name: lane.Quoted, typ: lane.Type}}, key...)
	}
	for _, lane := range v.Lanes {
		claim = append(claim, sqlParam{typ: lane.Type + "[]"})
	}
	for _, typ := range []string{"text[]", "text[]", "timestamptz[]", "uuid[]", "integer[]", "boolean"} {
		claim = append(claim, sqlParam{typ: typ})
	}
	return []sqlFunction{{Name: "claim_by_topic", params: claim}, {Name: "pause", params: key},
		{Name: "resume", params: key}, {Name: "topics", params: []sqlParam{{typ: "integer"}}}, {Name: "topic_policies"},
		{Name: topicChanged}}
}

// OfTable reports whether the function is a trigger's.
func (f sqlFunction) OfTable() bool { return f.Name == topicChanged }

func prefixed(row, column string) string {
	if row == "" {
		return column
	}
	return row + "." + column
}

// topicChanged is the function of the trigger on the side table, which is dropped after that.
const topicChanged = "topic_changed"
