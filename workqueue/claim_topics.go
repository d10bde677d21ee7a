package workqueue

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// What a row of the result of a claim by topic is, see sql/topics.sql.
const (
	topicVerdict = iota
	topicClaimed
	topicFromLane
	topicReached
	topicHasAside
	topicSetAside
	topicRests
	topicAvailable
)

// An openTopic has rows aside that may be claimed, beyond a place in its lane.
type openTopic struct {
	name  string
	after position
}

// A topicQuestion is what a claim asks and is told about topics.
type topicQuestion struct {
	open      []openTopic
	rooms     []int
	busy      []string
	asksAside bool // it also asks for topics with rows aside
	anybody   bool // it is no worker's: the claim itself asks for such topics, and there is room for all
	changes   int  // of topicState, when it was asked

	paused   int
	more     bool // rows may be left that could have been claimed
	cut      bool // in particular, in the lanes of topics
	reached  []*claimedRow
	fromLane []fromLane
	aside    []string // topics with rows aside
	probes   []uuid.UUID
	resting  map[string]struct{} // topics that rest
	again    time.Duration       // until the first rest ends; negative: it is not known
	returned []returnedTopic

	row struct { // of the result, see read
		kind    int
		topic   *string
		n, lane *int
		due     *time.Time
		id      *uuid.UUID
	}
}

type fromLane struct {
	topic string
	place position
}

// A returnedTopic is one whose destination is available again.
type returnedTopic struct {
	name  string
	since time.Time // when it was unavailable first
}

// args adds the arguments of the question to those of a claim.
func (q *topicQuestion) args(args map[string]any) {
	args["busy"], args["asks"] = append([]string{}, q.busy...), q.asksAside
	if q.anybody {
		args["open"], args["open_due"], args["open_id"], args["room"] = nil, nil, nil, nil
		return
	}
	names, due, ids := make([]string, len(q.open)), make([]string, len(q.open)), make([]uuid.UUID, len(q.open))
	for i, o := range q.open {
		names[i], due[i], ids[i] = o.name, o.after.bound(), o.after.id
	}
	args["open"], args["open_due"], args["open_id"], args["room"] = names, due, ids, append([]int{}, q.rooms...)
}

// reset forgets an answer: the claim is repeated.
func (q *topicQuestion) reset() {
	if q != nil {
		q.reached, q.fromLane, q.aside, q.probes, q.resting, q.returned = nil, nil, nil, nil, nil, nil
		q.again = -1
	}
}

func (q *topicQuestion) columns(dest []any) []any {
	return append(dest, &q.row.kind, &q.row.topic, &q.row.n, &q.row.lane, &q.row.due, &q.row.id)
}

// read takes what a row of the result is.
func (q *topicQuestion) read() (isRow bool) {
	switch r := &q.row; r.kind {
	case topicVerdict:
		q.paused, q.more, q.cut = *r.n, *r.lane > 0, *r.lane > 1
	case topicReached:
		place := new(claimedRow)
		place.lane, place.DueAt, place.ID = *r.lane-1, *r.due, *r.id
		q.reached = append(q.reached, place)
	case topicHasAside, topicSetAside:
		q.aside = append(q.aside, *r.topic)
	case topicFromLane:
		q.fromLane = append(q.fromLane, fromLane{*r.topic, position{*r.due, *r.id}})
		if *r.n > 0 {
			q.probes = append(q.probes, *r.id)
		}
		return true
	case topicRests:
		q.rests(*r.topic, r.n)
	case topicAvailable:
		q.returned = append(q.returned, returnedTopic{*r.topic, *r.due})
	default:
		return true
	}
	return false
}

// rests records a topic that rests, for so many milliseconds if that is known.
func (q *topicQuestion) rests(topic string, ms *int) {
	if q.resting == nil {
		q.resting = map[string]struct{}{}
	}
	q.resting[topic] = struct{}{}
	if ms == nil {
		return
	}
	if in := time.Duration(*ms) * time.Millisecond; q.again < 0 || in < q.again {
		q.again = in
	}
}

// probing marks the rows that probe the destination of their topic.
func (q *topicQuestion) probing(rows []*claimedRow) {
	if q == nil || len(q.probes) == 0 {
		return
	}
	for _, row := range rows {
		row.probes = slices.Contains(q.probes, row.ID)
	}
}

// places are the rows by which the cursors of the lanes move: those that the claim took there, and the places that it
// came to. Rows from the lanes of topics are not among them.
func (q *topicQuestion) places(rows []*claimedRow) (places []*claimedRow) {
	if q == nil {
		return rows
	}
	if places = slices.Clone(rows); len(q.fromLane) > 0 {
		of := make(map[uuid.UUID]bool, len(q.fromLane))
		for _, row := range q.fromLane {
			of[row.place.id] = true
		}
		places = slices.DeleteFunc(places, func(row *claimedRow) bool { return of[row.ID] })
	}
	return inClaimOrder(append(places, q.reached...))
}
