package survey

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// An Alarm is an active one of the table of alarms.
type Alarm struct {
	ID, Owner, Label, Kind, Expr, Zone string
	NextAt                             time.Time
	LastAt                             *time.Time
	Failures                           int32
	Error                              string
	Late                               float64 // seconds since its next wake was due; negative before
}

// Alarms returns whether a schema has alarms, and whether row-level security hides some of them.
func Alarms(ctx context.Context, r Reader, schema string) (there, filtered bool, err error) {
	type table struct{ Filtered bool }
	all, err := rows[table](ctx, r, "alarms", nil, schema)
	return len(all) > 0, len(all) > 0 && all[0].Filtered, err
}

// NextAlarms returns at most limit active alarms in the order of their wakes, behind a time and an id.
func NextAlarms(ctx context.Context, r Reader, schema string, after time.Time, id string, limit int) ([]Alarm, error) {
	return rows[Alarm](ctx, r, "alarms_next", pgx.Identifier{schema, "alarms"}.Sanitize(), after, id, limit)
}

// FailingAlarms returns at most limit repeating alarms whose last delivery failed.
func FailingAlarms(ctx context.Context, r Reader, schema string, limit int) ([]Alarm, error) {
	return rows[Alarm](ctx, r, "alarms_series", pgx.Identifier{schema, "alarms"}.Sanitize(), limit)
}

// A Source is where messages of a consumer come from.
type Source struct {
	Consumer, Source string
	Messages         int64 // that are kept
}

// Sources returns at most limit sources of the consumers of a table behind the given one. At most messages are counted
// of each.
func Sources(ctx context.Context, r Reader, f *Facts, consumer, source string, limit, messages int) ([]Source, error) {
	return rows[Source](ctx, r, "sources", f, limit, messages, consumer, source)
}

// Ended is how long ago, in seconds, the oldest rows ended that are kept.
type Ended struct {
	Done   *float64 // done or cancelled
	Failed *float64 // dead letters and cancelled ones
}

// OldestEnded looks at the beginning of two indexes.
func OldestEnded(ctx context.Context, r Reader, f *Facts) (Ended, error) {
	return one[Ended](ctx, r, "ended", f)
}
