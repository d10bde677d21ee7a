package periodic

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// MaxBackfill is how many occurrences one [Plan.Backfill] writes at most. It refuses larger ranges, so that a wrong
// date does not fill the domain's table. Split them into several calls.
const MaxBackfill = 1000

// Trigger writes an occurrence outside the plan, due now, and returns it. It works for a paused or ended schedule too,
// applies no policy, and leaves the plan and its counts unchanged. If another row stands in its way, the result is a
// Duplicate with the id of that row.
func (p *Plan) Trigger(ctx context.Context, tx workqueue.Tx, name string) (Occurrence, error) {
	s, err := p.find(ctx, tx, name)
	if err != nil {
		return Occurrence{}, err
	}
	list := []Occurrence{s.triggered(uuid.Must(uuid.NewV7()), s.now)}
	_, err = p.options.Insert(ctx, tx, list)
	return list[0], err
}

// Backfill writes the occurrences of a schedule between two times, both included, as if they had fired, and returns how
// many it wrote. An occurrence that has fired already is not written again, for as long as the domain keeps its row.
// They are due at once, and no policy applies. The range must lie in the past and contain at most [MaxBackfill]
// occurrences.
func (p *Plan) Backfill(ctx context.Context, tx workqueue.Tx, name string, from, to time.Time) (int, error) {
	s, err := p.find(ctx, tx, name)
	if err != nil {
		return 0, err
	}
	occurrences, err := s.past(from, to)
	if err != nil || len(occurrences) == 0 {
		return 0, err
	}
	return p.options.Insert(ctx, tx, occurrences)
}

// PreviewBackfill returns the occurrences of a range for [Plan.Backfill], in their order, and neither writes nor locks
// anything. Those that have a row already, which Backfill leaves out, are Duplicates if the plan has
// [Options].MarkExisting.
func (p *Plan) PreviewBackfill(ctx context.Context, tx workqueue.Tx, name string, from, to time.Time) ([]Occurrence,
	error) {
	s, err := p.read(ctx, tx, name)
	if err != nil {
		return nil, err
	}
	occurrences, err := s.past(from, to)
	if err != nil || len(occurrences) == 0 || p.options.MarkExisting == nil {
		return occurrences, err
	}
	return occurrences, p.options.MarkExisting(ctx, tx, occurrences)
}

// past returns a schedule's occurrences in a range that has passed.
func (r row) past(from, to time.Time) ([]Occurrence, error) {
	switch {
	case to.Before(from):
		return nil, validate.Errorf("backfill", "ends at %s, before it begins at %s", stamp(to), stamp(from))
	case to.After(r.now):
		return nil, validate.Errorf("backfill", "ends at %s, which is later than now, %s", stamp(to), stamp(r.now))
	}
	missed, err := r.between(from, to)
	return r.planned(missed), err
}

// between returns a schedule's nominal times in a range. The times of an interval count from its anchor.
func (r row) between(from, to time.Time) ([]time.Time, error) {
	parsed, err := schedule.Parse(r.Expr, r.Zone)
	if err != nil {
		return nil, refuse(r.Name, err)
	}
	after := parsed.OnGrid(r.phase(), from.Add(-1))
	times := parsed.Between(after, to, MaxBackfill+1)
	if len(times) > MaxBackfill {
		return nil, validate.Errorf("backfill", "from %s to %s has more than the %d occurrences that one call may "+
			"write: the last of those is at %s",
			stamp(from), stamp(to), MaxBackfill, stamp(times[MaxBackfill-1]))
	}
	return times, nil
}

// phase is one of the times of the schedule's interval.
func (r row) phase() time.Time {
	for _, at := range []*time.Time{r.NextAt, r.LastAt, r.anchor} {
		if at != nil {
			return *at
		}
	}
	return r.CreatedAt.Truncate(time.Second)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
