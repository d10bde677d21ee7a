package survey

import (
	"context"
	"time"
)

// A Group is what a table without lanes holds of one topic or kind.
type Group struct {
	Name                           string
	Ready, Later, Running, Expired int64
	OldestReady                    float64 // in seconds
}

// Groups are the topics or kinds of a table without lanes, those with the most rows first.
func Groups(ctx context.Context, r Reader, f *Facts) ([]Group, error) {
	return rows[Group](ctx, r, "groups", f)
}

// A Claim is one call that has claimed rows and still holds some.
type Claim struct {
	Owner         string
	Rows, Expired int64
	Ends          float64 // seconds until its first lease expires; negative once it has
	Label         string  // what one of the rows is about
	Labels        int64   // how many different ones there are
}

// Claims are so many of the table's, the one whose lease expires first at the front.
func Claims(ctx context.Context, r Reader, f *Facts, limit int) ([]Claim, error) {
	return rows[Claim](ctx, r, "claims", f, limit)
}

// Sessions are those of one program, role and machine. What the role that reads may not see is 0.
type Sessions struct {
	Application, Role, Client                string
	Sessions, Active, Waiting, InTransaction int64 // the last one idle
	OldestTransaction                        float64
	Silent                                   float64 // seconds since one of them did something
}

// AllSessions are so many groups of the database's sessions, the largest first.
func AllSessions(ctx context.Context, r Reader, limit int) ([]Sessions, error) {
	return rows[Sessions](ctx, r, "sessions", nil, limit)
}

// Errors are rows of one topic or kind with the same error.
type Errors struct {
	Label, Error     string
	Failed, Retrying int64
	Latest           float64 // seconds since the last one failed for good
	ID               string  // of that one
}

// GroupedErrors are so many of the table's, among so many of the last dead letters, none of which is older, and of the
// rows that are claimed next.
func GroupedErrors(ctx context.Context, r Reader, f *Facts, within time.Duration, sample, limit int) ([]Errors, error) {
	return rows[Errors](ctx, r, "errors", f, within.Seconds(), sample, limit)
}

// Rates are what has happened within a length of time, as far as indexes tell.
type Rates struct {
	Arrived int64 // rows whose id is of this time
	Ended   int64 // without those that are deleted at their end
}

// RatesOver counts up to so many rows.
func RatesOver(ctx context.Context, r Reader, f *Facts, last time.Duration, limit int) (Rates, error) {
	return one[Rates](ctx, r, "rates", f, last.Seconds(), limit)
}

// A QueueRule is what a queue is bound to.
type QueueRule struct {
	Name       string
	Paused     bool
	MaxRunning *int32
	Rate       *float64
	Running    int64   // of those that MaxRunning bounds
	Changed    float64 // seconds ago
}

// Saturated tells whether the rule keeps jobs waiting now.
func (q QueueRule) Saturated() bool {
	return q.MaxRunning != nil && q.Running >= int64(*q.MaxRunning) || q.Rate != nil
}

// QueueRules are so many of the table's queues that have any; none of a table without queues.
func QueueRules(ctx context.Context, r Reader, f *Facts, limit int) ([]QueueRule, error) {
	if len(f.LaneNames) == 0 || f.LaneNames[0] != "queue" || !f.Has("slot") {
		return nil, nil
	}
	return rows[QueueRule](ctx, r, "queues", f, limit)
}
