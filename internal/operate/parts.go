package operate

import (
	"cmp"
	"context"
	"slices"

	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

// CountedRows is how many rows of a table a command counts in each state unless it is asked for all. Each may be on a
// page of its own in a large table, and a command reads all tables.
const CountedRows = 1000

// maxRules is how many rules of queues are read.
const maxRules = 1000

// A Part is a table, or one of its queues, topics or consumers, with its live rows that are not held back.
type Part struct {
	Table       string  `json:"table"`
	By          string  `json:"by,omitempty"`            // the column that name is a value of; missing for the table
	Name        string  `json:"name,omitempty"`          // queue, topic or consumer; missing for the table
	Ready       int64   `json:"ready"`                   // due now
	Scheduled   int64   `json:"scheduled"`               // due later
	InProgress  int64   `json:"in_progress"`             // claimed
	Expired     int64   `json:"expired"`                 // of those, with an expired lease
	OldestReady float64 `json:"oldest_ready_seconds"`    // how long the oldest ready row has been due
	Longest     float64 `json:"longest_running_seconds"` // how long a row has been in progress; 0 until a lease has been renewed
	Overdue     int64   `json:"not_returning"`           // rows in progress that have run for longer than they should
	AtLeast     bool    `json:"at_least"`                // there may be more ready, in_progress and expired rows
	MoreLater   bool    `json:"scheduled_at_least"`      // there may be more scheduled rows
	Paused      bool    `json:"paused,omitempty"`
	MaxRunning  int32   `json:"max_running,omitempty"`     // the limit of jobs in progress
	Rate        float64 `json:"rate_per_second,omitempty"` // the limit of jobs started in a second

	Burst     int32   `json:"-"` // jobs that the rate lets start at once after a quiet period
	Counted   int64   `json:"-"` // rows in progress that MaxRunning counts
	Throttled bool    `json:"-"` // the rate has let no job start just now
	Changed   float64 `json:"-"` // seconds since it was paused, resumed or limited
}

// Parts returns a table's queues or consumers or, if it has neither, its topics or kinds, those with the most rows
// first, and whether there may be others. Row-level security makes their counts lower bounds.
func Parts(ctx context.Context, r survey.Reader, t *survey.Facts) (parts []Part, cut bool, err error) {
	if len(t.LaneNames) == 0 {
		parts, cut, err = groups(ctx, r, t)
	} else {
		parts, cut, err = lanes(ctx, r, t)
	}
	for i := range parts {
		parts[i].AtLeast = parts[i].AtLeast || t.Filtered
		parts[i].MoreLater = parts[i].MoreLater || t.Filtered
	}
	return parts, cut, err
}

// Depth counts the live rows of a table that are not held back, without telling its parts apart: those that are not due
// yet by the index alone. Cut says that rows of other lanes were not counted.
func Depth(ctx context.Context, r survey.Reader, t *survey.Facts) (whole Part, cut bool, err error) {
	l := &laneParts{table: t}
	if cut, err = l.read(ctx, r); err != nil {
		return Part{}, false, err
	}
	return Whole(t, l.parts), cut, nil
}

// Whole adds up the parts of a table.
func Whole(t *survey.Facts, parts []Part) Part { return Sum(t.Name, t.Filtered, parts) }

// Sum adds up some parts of a table. There may be more rows if it is cut.
func Sum(table string, cut bool, parts []Part) Part {
	whole := Part{Table: table, AtLeast: cut, MoreLater: cut}
	for _, p := range parts {
		whole.Ready, whole.Scheduled, whole.InProgress, whole.Expired = whole.Ready+p.Ready,
			whole.Scheduled+p.Scheduled, whole.InProgress+p.InProgress, whole.Expired+p.Expired
		whole.Longest, whole.Overdue = max(whole.Longest, p.Longest), whole.Overdue+p.Overdue
		whole.OldestReady, whole.AtLeast = max(whole.OldestReady, p.OldestReady), whole.AtLeast || p.AtLeast
		whole.MoreLater = whole.MoreLater || p.MoreLater
	}
	return whole
}

func lanes(ctx context.Context, r survey.Reader, t *survey.Facts) (parts []Part, cut bool, err error) {
	l := &laneParts{table: t}
	if cut, err = l.read(ctx, r); err != nil {
		return nil, false, err
	}
	rules, err := survey.QueueRules(ctx, r, t, maxRules)
	if err != nil {
		return nil, false, err
	}
	l.apply(rules)
	slices.SortStableFunc(l.parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Ready+b.InProgress, a.Ready+a.InProgress), cmp.Compare(a.Name, b.Name))
	})
	return l.parts, cut || len(rules) >= maxRules, nil
}

func groups(ctx context.Context, r survey.Reader, t *survey.Facts) (parts []Part, cut bool, err error) {
	all, err := survey.Groups(ctx, r, t, workqueue.DefaultRunsWithin)
	var due, later int64
	cut = len(all) >= survey.MaxLanes // rows of other topics were not counted
	for _, g := range all {
		due, later = due+g.Ready+g.Running, later+g.Later
	}
	for _, g := range all {
		parts = append(parts, Part{Table: t.Name, By: t.LabelName(), Name: g.Name, Ready: g.Ready,
			Scheduled: g.Later, InProgress: g.Running,
			Expired: g.Expired, OldestReady: max(g.OldestReady, 0), Longest: max(g.Longest, 0),
			Overdue: g.Overdue, AtLeast: cut || due >= int64(t.MaxRunning()),
			MoreLater: cut || later >= int64(t.HeadRows)})
	}
	return parts, cut, err
}

// laneParts are the queues or consumers of a table, or the table if it has neither. One of them may have several heads,
// one for each priority.
type laneParts struct {
	table *survey.Facts
	parts []Part
}

// read counts the rows, and tells whether there may be other lanes.
func (l *laneParts) read(ctx context.Context, r survey.Reader) (cut bool, err error) {
	heads, err := survey.Heads(ctx, r, l.table, survey.Asked{Within: workqueue.DefaultRunsWithin})
	if err != nil {
		return false, err
	}
	later, err := survey.LaterRows(ctx, r, l.table)
	if err != nil {
		return false, err
	}
	return l.count(heads, later), nil
}

func (l *laneParts) find(name string) *Part {
	i := slices.IndexFunc(l.parts, func(p Part) bool { return p.Name == name })
	if i < 0 {
		i = len(l.parts)
		p := Part{Table: l.table.Name, Name: name}
		if len(l.table.LaneNames) > 0 {
			p.By = l.table.LaneNames[0]
		}
		l.parts = append(l.parts, p)
	}
	return &l.parts[i]
}

// count adds the rows, and tells whether there may be other lanes.
func (l *laneParts) count(heads, later []survey.Head) (cut bool) {
	for _, h := range heads {
		p := l.find(h.Name())
		p.Ready, p.InProgress, p.Expired = p.Ready+h.Ready, p.InProgress+h.Running, p.Expired+h.Expired
		p.Longest, p.Overdue = max(p.Longest, h.Longest), p.Overdue+h.Overdue
		p.OldestReady, p.AtLeast = max(p.OldestReady, h.OldestReady), p.AtLeast || h.More
	}
	for _, h := range later {
		p := l.find(h.Name())
		p.Scheduled, p.MoreLater = p.Scheduled+h.Seen, p.MoreLater || h.More
	}
	if len(heads) < survey.MaxLanes && len(later) < survey.MaxLanes {
		return false
	}
	for i := range l.parts { // of the others no row was counted
		l.parts[i].AtLeast, l.parts[i].MoreLater = true, true
	}
	return true
}

func (l *laneParts) apply(rules []survey.QueueRule) {
	for _, rule := range rules {
		p := l.find(rule.Name)
		p.Paused, p.Counted, p.Throttled, p.Changed = rule.Paused, rule.Running, rule.Throttled, rule.Changed
		if rule.Burst != nil {
			p.Burst = *rule.Burst
		}
		if rule.MaxRunning != nil {
			p.MaxRunning = *rule.MaxRunning
		}
		if rule.Rate != nil {
			p.Rate = *rule.Rate
		}
	}
}
