package survey

import (
	"context"
	"time"
)

// A Group is the live rows of one topic or kind, in a table without lanes.
type Group struct {
	Name                           string
	Ready, Later, Running, Expired int64
	OldestReady                    float64 // in seconds
}

// Groups returns the topics or kinds of a table without lanes, those with the most rows first.
func Groups(ctx context.Context, r Reader, f *Facts) ([]Group, error) {
	return rows[Group](ctx, r, "groups", f)
}

// A Claim is a claim call, whose owner token still holds some of its rows.
type Claim struct {
	Owner         string
	Rows, Expired int64
	Ends          float64 // seconds until its first lease expires; negative once it has
	Label         string  // topic or kind of one of the rows
	Labels        int64   // number of different labels
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
}

// AllSessions returns at most limit groups of the database's sessions, the largest first.
func AllSessions(ctx context.Context, r Reader, limit int) ([]Sessions, error) {
	return rows[Sessions](ctx, r, "sessions", nil, limit)
}

// Errors are rows of one topic or kind with the same error.
type Errors struct {
	Label, Error     string
	Failed, Retrying int64
	Latest           float64 // seconds since the last of them became a dead letter
	ID               string  // id of that row
}

// GroupedErrors returns at most limit groups. It reads up to sample of the latest dead letters, none of them older than
// within, and up to sample of the rows that are claimed next.
func GroupedErrors(ctx context.Context, r Reader, f *Facts, within time.Duration, sample, limit int) ([]Errors, error) {
	return rows[Errors](ctx, r, "errors", f, within.Seconds(), sample, limit)
}

// Rates are numbers of rows within a period, as far as indexes tell.
type Rates struct {
	Arrived int64 // rows whose id was made in the period
	Ended   int64 // rows that ended, without those that are deleted when they are done
}

// RatesOver counts what happened in the last period, up to limit rows.
func RatesOver(ctx context.Context, r Reader, f *Facts, last time.Duration, limit int) (Rates, error) {
	return one[Rates](ctx, r, "rates", f, last.Seconds(), limit)
}

// A QueueRule is the limits of a queue.
type QueueRule struct {
	Name       string
	Paused     bool
	MaxRunning *int32
	Rate       *float64
	Running    int64   // rows in progress that MaxRunning counts
	Changed    float64 // seconds since the rule changed
}

// Saturated tells whether the rule may keep jobs waiting now.
func (q QueueRule) Saturated() bool {
	return q.MaxRunning != nil && q.Running >= int64(*q.MaxRunning) || q.Rate != nil
}

// QueueRules returns at most limit rules of the table's queues, and none for a table without queues.
func QueueRules(ctx context.Context, r Reader, f *Facts, limit int) ([]QueueRule, error) {
	if len(f.LaneNames) == 0 || f.LaneNames[0] != "queue" || !f.Has("slot") {
		return nil, nil
	}
	return rows[QueueRule](ctx, r, "queues", f, limit)
}
