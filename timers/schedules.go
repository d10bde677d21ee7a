package timers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A Schedule describes when timers fire repeatedly, and which. Name, Expr and Topic are required.
type Schedule struct {
	Name string // the schedule's key: 1 to [periodic.MaxName] bytes
	Expr string // a cron expression, a descriptor or an interval, see package schedule
	Zone string // the IANA time zone of Expr. Default: UTC
	Rule schedule.Rule

	// Version is that of the definition: one with a higher version is not replaced, see [periodic.Schedule].
	Version int64

	// Topic, Payload or Value, Headers and MaxAttempts are those of every occurrence, as with a [Timer].
	Topic       string
	Payload     []byte
	Value       any // always nil in a ScheduleInfo
	Headers     map[string]string
	MaxAttempts int
}

// A ScheduleInfo is a schedule as it is stored, see [periodic.Info].
type ScheduleInfo struct {
	Schedule
	Status     workqueue.Status
	Paused     bool
	NextAt     *time.Time
	LastAt     *time.Time
	BufferedAt *time.Time
	Fired      int64
	Skipped    int64
	Owed       int // see [periodic.Info]
	Failures   int // see [periodic.Info]
	LastError  string
	CreatedAt  time.Time
}

// Schedules are schedules whose occurrences are timers. They are safe for concurrent use. Methods that take a
// transaction run in the application's transaction.
//
// These methods are those of the embedded plan, see [periodic.Plan]:
//
//   - Pause(ctx, tx, name) error stops a schedule
//   - Resume(ctx, tx, name) error continues it from now on
//   - Delete(ctx, tx, name) error removes it
//   - Trigger(ctx, tx, name) (Occurrence, error) sets an additional timer that is due now; Key is the timer's
//   - Backfill(ctx, tx, name, from, to) (int, error) sets the timers of a period that has passed
//   - PreviewBackfill(ctx, tx, name, from, to) ([]Occurrence, error) returns what that would set
//   - Table() *workqueue.Table is the table of the schedules, for [workqueue.Table.On] and statistics
type Schedules struct {
	*periodic.Plan
	timers *Timers
}

func openSchedules(t *Timers, o Options) (*Schedules, error) {
	s := &Schedules{timers: t}
	var err error
	s.Plan, err = periodic.Open(periodic.Options{
		Schema: o.Schema, Table: scheduleTable, Lead: o.Lead, Telemetry: o.Telemetry,
		Insert: s.insert, MarkExisting: s.markExisting, Live: s.live,
	})
	return s, err
}

// Put creates schedules, and changes those whose name exists, see [periodic.Plan.Put].
func (s *Schedules) Put(ctx context.Context, tx workqueue.Tx, schedules ...Schedule) error {
	plans := make([]periodic.Schedule, len(schedules))
	for i, sched := range schedules {
		p, err := s.planned(ctx, sched)
		if err != nil {
			return err
		}
		plans[i] = p
	}
	return s.Plan.Put(ctx, tx, plans...)
}

// Get reads a schedule. The error is [workqueue.ErrNotFound] if no schedule has the name.
func (s *Schedules) Get(ctx context.Context, tx workqueue.Tx, name string) (ScheduleInfo, error) {
	i, err := s.Plan.Get(ctx, tx, name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	return scheduleInfo(i)
}

// List reads schedules in the byte order of their names.
func (s *Schedules) List(ctx context.Context, tx workqueue.Tx, f periodic.Filter) ([]ScheduleInfo, error) {
	plans, err := s.Plan.List(ctx, tx, f)
	if err != nil {
		return nil, err
	}
	list := make([]ScheduleInfo, len(plans))
	for i, p := range plans {
		if list[i], err = scheduleInfo(p); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// A content is what all timers of a schedule have in common. It is stored as the template of the schedule's row.
type content struct {
	Topic       string            `json:"topic"`
	Payload     []byte            `json:"payload,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
}

func (c content) timer(key string) Timer {
	return Timer{Key: key, Topic: c.Topic, Payload: c.Payload, Headers: c.Headers, MaxAttempts: c.MaxAttempts}
}

func decodeTemplate(encoded []byte) (c content, err error) {
	if err = json.Unmarshal(encoded, &c); err != nil {
		err = fmt.Errorf("txwork: the schedule's template was not written by package timers: %w", err)
	}
	return c, err
}

func (s *Schedules) planned(ctx context.Context, in Schedule) (periodic.Schedule, error) {
	data, err := payload.Of(ctx, s.timers.codec, s.timers.envelope("", in.Name, in.Headers), in.Value, in.Payload)
	t := content{in.Topic, data, in.Headers, in.MaxAttempts}
	if err = cmp.Or(err, s.timers.checkContent(t.timer("occurrence"))); err != nil {
		return periodic.Schedule{}, err
	}
	encoded, err := json.Marshal(t)
	return periodic.Schedule{Name: in.Name, Expr: in.Expr, Zone: in.Zone, Rule: in.Rule, Version: in.Version,
		Template: encoded}, err
}

func scheduleInfo(i periodic.Info) (ScheduleInfo, error) {
	t, err := decodeTemplate(i.Template)
	return ScheduleInfo{
		Schedule: Schedule{
			Name: i.Name, Expr: i.Expr, Zone: i.Zone, Rule: i.Rule, Version: i.Version,
			Topic: t.Topic, Payload: t.Payload, Headers: t.Headers, MaxAttempts: t.MaxAttempts,
		},
		Status: i.Status, Paused: i.Paused, NextAt: i.NextAt, LastAt: i.LastAt, BufferedAt: i.BufferedAt,
		Fired: i.Fired, Skipped: i.Skipped, Owed: i.Owed, Failures: i.Failures, LastError: i.LastError,
		CreatedAt: i.CreatedAt,
	}, err
}

// insert writes occurrences as timers. It skips an occurrence whose key exists because it was backfilled.
func (s *Schedules) insert(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
	t, err := decodeTemplate(occurrences[0].Template)
	if err != nil {
		return 0, err
	}
	rows := make([]workqueue.NewRow, len(occurrences))
	for i, o := range occurrences {
		timer := t.timer(o.Key)
		rows[i] = newRow(&timer, o.Nominal, o.DueAt, o.Schedule)
		rows[i].ID = o.ID
	}
	inserted, err := s.timers.table.Insert(ctx, tx, rows...)
	written := 0
	for _, in := range inserted {
		if !in.Duplicate {
			written++
		}
	}
	return written, err
}

// markExisting finds occurrences by their keys, as insert does.
func (s *Schedules) markExisting(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) error {
	keys := make([]string, len(occurrences))
	for i, o := range occurrences {
		keys[i] = o.Key
	}
	return s.timers.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var i int
		err := scan(&i)
		if err == nil {
			occurrences[i-1].Duplicate = true
		}
		return err
	}, s.timers.statements.existing, keys)
}

// live returns how many timers of a schedule have not ended.
func (s *Schedules) live(ctx context.Context, tx workqueue.Tx, name string) (n int, err error) {
	err = s.timers.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&n) },
		s.timers.statements.live, name)
	return n, err
}
