package survey

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// A Group is the live rows of one topic or kind, in a table without lanes.
type Group struct {
	Name                           string
	Ready, Later, Running, Expired int64
	OldestReady                    float64 // in seconds
	Longest                        float64 // for how long a row has run, in seconds; 0 if no lease was renewed yet
	Overdue                        int64   // rows that have run for longer than they should
}

// Groups returns the topics or kinds of a table without lanes, those with the most rows first. Within is for how long a
// row may run if its worker did not say.
func Groups(ctx context.Context, r Reader, f *Facts, within time.Duration) ([]Group, error) {
	return rows[Group](ctx, r, "groups", f, within.Seconds())
}

// An OverdueRow is a row in progress that has run for longer than it should.
type OverdueRow struct {
	ID, Label   string
	Lane        []string
	Owner       string
	Attempts    int32
	Ran, Within float64 // in seconds
	Cancelled   bool
	Rows        int64 // how many there are
}

// OverdueRows returns at most limit of them, the longest first. Within is for how long a row may run if its worker did
// not say.
func OverdueRows(ctx context.Context, r Reader, f *Facts, within time.Duration, limit int) ([]OverdueRow, error) {
	return rows[OverdueRow](ctx, r, "overdue_rows", f, within.Seconds(), limit)
}

// A Claim is a claim call, whose owner token still holds some of its rows.
type Claim struct {
	Owner         string
	Rows, Expired int64
	Ends          float64 // seconds until its first lease expires; negative once it has
	Label         string  // topic or kind of one of the rows
	Labels        int64   // number of different labels
	Longest       float64 // for how long a row has run, in seconds; 0 if no lease was renewed yet
	Claims        int64   // how many claims there are in all
}

// Claims returns at most limit claims of the table, those whose leases expire first at the front.
func Claims(ctx context.Context, r Reader, f *Facts, limit int) ([]Claim, error) {
	return rows[Claim](ctx, r, "claims", f, limit)
}

// Sessions are the sessions of one program, role and machine. Numbers that the reading role may not see are 0.
type Sessions struct {
	Application, Role, Client                string
	Sessions, Active, Waiting, InTransaction int64 // InTransaction counts sessions idle in a transaction
	OldestTransaction                        float64
	Silent                                   float64 // seconds since the last activity of any of them
	Groups                                   int64   // how many groups there are in all
}

// AllSessions returns at most limit groups of the database's sessions, the largest first.
func AllSessions(ctx context.Context, r Reader, limit int) ([]Sessions, error) {
	return rows[Sessions](ctx, r, "sessions", nil, limit)
}

// Errors are rows of one topic or kind with the same error.
type Errors struct {
	Label, Error     string
	Failed, Retrying int64
	Latest           float64   // seconds since the last of them became a dead letter
	ID               string    // id of that row
	Groups           int64     // how many groups there are in all
	Ages             []float64 // seconds since each of the dead letters became one
	Dead             int64     // how many dead letters there are in all groups
}

// Literal is the longest part of a masked error that stands in the error itself, by which rows with it are found.
func Literal(masked string) string {
	return strings.TrimSpace(slices.MaxFunc(strings.Split(masked, "…"), func(a, b string) int {
		return cmp.Compare(len(a), len(b))
	}))
}

// GroupedErrors returns at most limit groups. It reads up to sample of the latest dead letters, none of them older than
// within, and up to sample of the rows that are claimed next.
func GroupedErrors(ctx context.Context, r Reader, f *Facts, within time.Duration, sample, limit int) ([]Errors, error) {
	return rows[Errors](ctx, r, "errors", grouped{f, true}, within.Seconds(), sample, limit, passed*sample)
}

// DeadErrors is GroupedErrors of dead letters only, however old they are. It passes over at most as many cancelled rows
// as it groups. More tells whether there may be dead letters behind those that it has read.
func DeadErrors(ctx context.Context, r Reader, f *Facts, sample, limit int) (all []Errors, more bool, err error) {
	all, err = rows[Errors](ctx, r, "errors", grouped{f, false}, ever.Seconds(), sample, limit, 2*sample)
	if err != nil || len(all) > 0 && all[0].Dead >= int64(sample) {
		return all, err == nil, err
	}
	behind, err := one[struct{ More bool }](ctx, r, "more_failed", f, 2*sample)
	return all, behind.More, err
}

// ever is older than any row.
const ever = 100 * 365 * 24 * time.Hour

// A grouped is a table whose errors are grouped.
type grouped struct {
	*Facts
	Live bool // those of rows that will be retried, too
}

// Rates are numbers of rows within a period, as far as indexes tell.
type Rates struct {
	Arrived int64 // rows whose id was made in the period
	Ended   int64 // rows that ended, without those that are deleted when they are done

	MoreArrived bool `db:"-"` // more may have arrived
	MoreEnded   bool `db:"-"` // more may have ended
}

// RatesOver counts what happened in the last period, up to limit rows.
func RatesOver(ctx context.Context, r Reader, f *Facts, last time.Duration, limit int) (Rates, error) {
	rates, err := one[Rates](ctx, r, "rates", f, last.Seconds(), limit)
	rates.MoreArrived, rates.MoreEnded = rates.Arrived >= int64(limit), rates.Ended >= int64(limit)
	return rates, err
}

// A QueueRule is the limits of a queue.
type QueueRule struct {
	Name       string
	Paused     bool
	MaxRunning *int32
	Rate       *float64
	Burst      *int32  // jobs that the rate lets start at once after a quiet period
	Running    int64   // rows in progress that MaxRunning counts
	Changed    float64 // seconds since the rule changed
	Throttled  bool    // the rate has let no job start just now
}

// Saturated tells whether the rule keeps jobs waiting now.
func (q QueueRule) Saturated() bool {
	return q.MaxRunning != nil && q.Running >= int64(*q.MaxRunning) || q.Throttled
}

// QueueRules returns at most limit rules of the table's queues, and none for a table without queues.
func QueueRules(ctx context.Context, r Reader, f *Facts, limit int) ([]QueueRule, error) {
	if len(f.LaneNames) == 0 || f.LaneNames[0] != "queue" || !f.Has("slot") {
		return nil, nil
	}
	return rows[QueueRule](ctx, r, "queues", f, limit)
}

// A Topic is the state of a topic.
type Topic struct {
	Lane    string // the value of the lane that has topics of its own; empty if there is no such lane
	Topic   string
	Paused  bool
	Aside   int64    // rows that are set aside
	More    bool     // there may be more of them
	Oldest  float64  // seconds since the first of them was due
	Changed *float64 // seconds since it was paused or resumed

	Unavailable *float64 // seconds since its destination is unavailable
	Rests       *float64 // seconds until a row may probe it; negative if one may
	Cause       string   // what was said of that last
	Topics      int64    // how many topics there are in all of which the same is asked
}

// topicRows is how many rows aside are counted, of all topics together, and how many topics that are paused, and how
// many with rows aside, are looked for. A topic that rests counts as a paused one.
const topicRows = 2000

// Topics returns the topics of the table that are paused or have rows aside, those whose rows have waited longest
// first, and whether there may be more of them.
func Topics(ctx context.Context, r Reader, f *Facts) (list []Topic, more bool, err error) {
	if !f.Has("aside") {
		return nil, false, nil
	}
	list, err = rows[Topic](ctx, r, "topics", f, topicRows)
	paused, aside := 0, 0
	for _, t := range list {
		if t.Paused || t.Unavailable != nil {
			paused++
		}
		if t.Aside > 0 {
			aside++
		}
	}
	return list, paused >= topicRows || aside >= topicRows, err
}

// MaxTopics is how many topics with rows aside, and how many paused ones, TopicsAside looks at.
const MaxTopics = 10_000

// States of topics with rows aside.
const (
	TopicPaused      = "paused"
	TopicUnavailable = "unavailable"
	TopicBehind      = "behind"
)

// TopicsAside returns, by their state, the topics of the table with rows that have been aside for as long as than: at
// most limit of each state, the longest first, and whether there may be more topics than were looked at.
func TopicsAside(ctx context.Context, r Reader, f *Facts, than time.Duration, limit int) (list map[string][]Topic,
	more bool, err error) {
	if !f.Has("aside") {
		return nil, false, nil
	}
	type looked struct {
		Topic
		State string
		Cut   bool
	}
	all, err := rows[looked](ctx, r, "topics_aside", f, than.Seconds(), limit, MaxTopics)
	list = map[string][]Topic{}
	for _, l := range all {
		if more = l.Cut; l.Topics > 0 {
			list[l.State] = append(list[l.State], l.Topic)
		}
	}
	return list, more, err
}

// LongestUnavailable is for how long, in seconds, the destination of a topic of the table has been unavailable; 0 if
// that of none is.
func LongestUnavailable(ctx context.Context, r Reader, f *Facts) (seconds float64, err error) {
	if !f.Has("aside") {
		return 0, nil
	}
	longest, err := one[struct{ Seconds float64 }](ctx, r, "unavailable", f)
	return longest.Seconds, err
}
