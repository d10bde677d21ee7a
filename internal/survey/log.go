package survey

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/sqltext"
)

// A Log is an outbox that is a log, as the catalog has it.
type Log struct {
	Schema, Name string
	Filtered     bool // row-level security hides rows of one of its tables: its functions refuse the role
}

// Table is the qualified name of the messages.
func (l *Log) Table() string { return pgx.Identifier{l.Schema, l.Name}.Sanitize() }

// Q returns the qualified name of an object that belongs to the log.
func (l *Log) Q(suffix string) string { return pgx.Identifier{l.Schema, l.Name + suffix}.Sanitize() }

// Parked is the table of the log's parked messages, without the schema.
func (l *Log) Parked() string { return l.Name + "_parked" }

// LogOf returns the log of a schema, or nil if it has none.
func LogOf(ctx context.Context, r Reader, schema string) (*Log, error) {
	type found struct {
		Name     string
		Filtered bool
	}
	all, err := rows[found](ctx, r, "log", nil, schema)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &Log{schema, all[0].Name, all[0].Filtered}, nil
}

// LogFacts are what is known of a log as a whole. Times are in seconds.
type LogFacts struct {
	Tick     int64   // the newest; 0: none
	TickAge  float64 // since it was made
	Unticked float64 // since the oldest message was written or due that the newest tick has not seen; 0: there is none
	Oldest   float64 // since the oldest message that is kept was written; 0: there is none
	Passed   bool    // all subscriptions have passed that message
	Bytes    int64   // of messages and their indexes

	Scheduled int64   // messages that are not in the log yet, up to ScheduledMessages
	Overdue   float64 // since the first of them was due; 0: none is due
}

// ScheduledMessages is up to how many messages are counted that are not in a log yet.
const ScheduledMessages = 10_000

// FactsOfLog reads them.
func FactsOfLog(ctx context.Context, r Reader, l *Log) (LogFacts, error) {
	return one[LogFacts](ctx, r, "log_facts", l, l.Table(), ScheduledMessages)
}

// IsRestored tells whether transaction ids have begun again since a log was written, as after a restore.
func IsRestored(ctx context.Context, r Reader, l *Log) (bool, error) {
	all, err := Rows[struct{ Is *bool }](ctx, r, sqltext.LogRestored(l.Q("_tick"), l.Q("_state")))
	return len(all) > 0 && all[0].Is != nil && *all[0].Is, err
}

// A Move is that of an outbox of rows which has been switched to a log, and has not ended.
type Move struct {
	Successor  string // the subscription that gets the rows
	Unfinished int64  // rows that have not ended, of which 20,000 are counted
	InProgress int64  // of these, rows that a relay has in hand
	Limited    int64  // and those of a key with a limit, which do not move
}

// MoveOf returns the move to a log, or nil if there is none.
func MoveOf(ctx context.Context, r Reader, l *Log) (*Move, error) {
	all, err := Rows[Move](ctx, r, "SELECT m.successor, coalesce(m.unfinished, 0), coalesce(m.in_progress, 0), "+
		"coalesce(m.limited, 0) FROM "+l.Q("_state")+" AS s CROSS JOIN "+l.Q("_moving")+"() AS m WHERE s.moving")
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// A Subscription is one of a log, and how far its lanes are behind.
type Subscription struct {
	Name       string
	Paused     bool
	Live, Dead int64 // parked messages that have not ended, and dead letters
	Rest       *Rest // nil: its destination is not known to be unavailable
	Retention  Retention
	Lanes      []LogLane
}

// A Retention is that of a subscription, and what it has lost.
type Retention struct {
	MaxAge       float64 // seconds; 0: no bound
	MaxMessages  int64   // 0: no bound
	Lost         int64   // messages that the subscription has passed over since it was made, for whatever reason
	GivenUp      int64   // of these, what its retention has passed over in the last day
	GivenUpUntil *time.Time
}

// Used is which part of its retention a subscription is behind: beyond 1 messages are lost. 0 if it has none.
func (s *Subscription) Used() (part float64) {
	for _, l := range s.Lanes {
		if l.Behind > 0 && s.Retention.MaxAge > 0 {
			part = max(part, l.Behind/s.Retention.MaxAge)
		}
		if s.Retention.MaxMessages > 0 {
			part = max(part, float64(l.Numbers)/float64(s.Retention.MaxMessages))
		}
	}
	return part
}

// A Rest is that of a destination that is unavailable.
type Rest struct {
	Seconds float64 // since it is
	Probe   float64 // seconds until a message may probe it; negative since it may
	Cause   string  // what was said last, its first line
}

// overdue is for how many seconds a probe may be due, or under way, until nobody is taken to read the subscription.
const overdue = 60

// IsProbed reports whether consumers are known to probe the destination of the subscription.
func (s *Subscription) IsProbed() bool { return s.Rest != nil && s.Rest.Probe > -overdue }

// A LogLane is a lane of a subscription.
type LogLane struct {
	Subscription string
	Lane         int32
	Paused       bool
	Messages     int64   // that are not settled, of those that were looked at
	More         bool    // there may be others
	Oldest       float64 // seconds since the oldest of them was written; 0: there is none
	Behind       float64 // seconds since the first tick that the lane has not passed; 0: there is none
	InHand       bool    // a consumer has a page
	Attempts     int32   // claims of the batch in hand
	Live, Dead   int64   // of the subscription
	Retained     int64   // bytes that are kept until the lane has passed them
	Place        string  // changes when the lane is claimed, or moves

	Unavailable, Probe *float64 // of the subscription, see Rest
	Cause              *string

	Numbers       int64   // that the log has drawn since
	MaxAge        float64 // these are of the subscription, see Retention
	MaxMessages   int64
	Lost, GivenUp int64
	GivenUpUntil  *time.Time
}

// Messages of a log that are looked at to see how far subscriptions are behind: of all lanes, and of each at most.
const (
	lookedMessages = 50_000
	LaneMessages   = 10_000
)

// Subscriptions returns the subscriptions of a log by name.
func Subscriptions(ctx context.Context, r Reader, l *Log) (all []Subscription, err error) {
	lanes, err := rows[LogLane](ctx, r, "log_lanes", l, lookedMessages, LaneMessages)
	for _, lane := range lanes {
		if n := len(all); n == 0 || all[n-1].Name != lane.Subscription {
			all = append(all, Subscription{Name: lane.Subscription, Paused: lane.Paused, Live: lane.Live,
				Dead: lane.Dead, Rest: lane.rest(), Retention: Retention{lane.MaxAge, lane.MaxMessages, lane.Lost,
					lane.GivenUp, lane.GivenUpUntil}})
		}
		s := &all[len(all)-1]
		s.Lanes = append(s.Lanes, lane)
	}
	return all, err
}

func (l *LogLane) rest() *Rest {
	if l.Unavailable == nil || l.Probe == nil {
		return nil
	}
	r := Rest{Seconds: *l.Unavailable, Probe: *l.Probe}
	if l.Cause != nil {
		r.Cause, _, _ = strings.Cut(*l.Cause, "\n")
	}
	return &r
}

// Messages is how many messages are not settled, and whether there may be more.
func (s *Subscription) Messages() (n int64, more bool) {
	for _, l := range s.Lanes {
		n, more = n+l.Messages, more || l.More
	}
	return n, more
}

// Oldest is for how many seconds the oldest message has waited, as far as it was found; 0: there is none.
func (s *Subscription) Oldest() (seconds float64) {
	for _, l := range s.Lanes {
		seconds = max(seconds, l.Oldest)
	}
	return seconds
}

// Age is for how many seconds the subscription has been behind: since its oldest message, or since the first tick that
// it has not passed. What it has not passed is kept, even if none of it is for the subscription.
func (s *Subscription) Age() (seconds float64) {
	for _, l := range s.Lanes {
		seconds = max(seconds, l.Oldest, l.Behind)
	}
	return seconds
}

// InHand is how many lanes consumers have a page of.
func (s *Subscription) InHand() (n int64) {
	for _, l := range s.Lanes {
		if l.InHand {
			n++
		}
	}
	return n
}

// Attempts is how often a batch in hand was claimed, the most of all lanes.
func (s *Subscription) Attempts() (n int32) {
	for _, l := range s.Lanes {
		n = max(n, l.Attempts)
	}
	return n
}

// Retained is how many bytes are kept until the subscription has passed them.
func (s *Subscription) Retained() (bytes int64) {
	for _, l := range s.Lanes {
		bytes = max(bytes, l.Retained)
	}
	return bytes
}

// Stirs tells whether a consumer has a page, or the lanes have moved since an earlier look.
func (s *Subscription) Stirs(before *Subscription) bool {
	if s.InHand() > 0 || len(s.Lanes) != len(before.Lanes) {
		return true
	}
	for i, l := range s.Lanes {
		if l.Place != before.Lanes[i].Place {
			return true
		}
	}
	return false
}

// A Loss is what a lane of a subscription was moved past.
type Loss struct {
	Subscription   string
	Lane           int32
	At             time.Time
	Messages       int64
	Oldest, Newest time.Time // when these were written
	Why            string    // cut, retention, replay or remove
}

// maxLosses is how many losses are looked at to find the latest.
const maxLosses = 5000

// Losses returns at most limit of the latest losses of a log.
func Losses(ctx context.Context, r Reader, l *Log, limit int) ([]Loss, error) {
	return rows[Loss](ctx, r, "log_losses", l, maxLosses, limit)
}
