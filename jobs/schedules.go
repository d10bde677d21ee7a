package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/periodic"
)

// nominalHeader is the header that holds the nominal time of a schedule's job.
const nominalHeader = "txwork-nominal"

// A Schedule enqueues a job periodically.
type Schedule struct {
	// Name is the schedule's key: 1 to [periodic.MaxName] bytes.
	Name string

	// Expr is a cron expression, a descriptor or an interval, see package schedule.
	Expr string

	// Zone is the IANA zone in which Expr is read. Default: UTC.
	Zone string

	// Rule says what happens to occurrences that are late or overlap, and spreads them in time.
	Rule schedule.Rule

	// Version is that of the definition: one with a higher version is not replaced, see [periodic.Schedule].
	Version int64

	// Args are the args of every job.
	Args Args

	// Queue, Priority, MaxAttempts, Retry, ByKey and Headers are the settings of every job, as in [InsertOptions]. The
	// settings of the kind, which they override, are looked up when the schedule is put.
	Queue       string
	Priority    Priority
	MaxAttempts int
	Retry       workqueue.Retry
	ByKey       keyed.Rule
	Headers     map[string]string
}

func (s Schedule) insert() Insert {
	return Insert{Args: s.Args, schedule: s.Name, occurrence: s.Name, InsertOptions: InsertOptions{
		Queue: s.Queue, Priority: s.Priority, MaxAttempts: s.MaxAttempts, Retry: s.Retry, ByKey: s.ByKey,
		Headers: s.Headers,
	}}
}

// A ScheduleInfo is a stored schedule, with the settings of its jobs, see [Schedule].
type ScheduleInfo struct {
	periodic.Info
	Kind        string
	Queue       string
	Priority    Priority
	MaxAttempts int
	Retry       workqueue.Retry
	ByKey       keyed.Rule
	Headers     map[string]string
}

// Schedules are periodic jobs: rows in a table of their own, from which schedulers enqueue the jobs that are due. Every
// [Worker] has a scheduler, and any number of processes may run them; there is no leader. An occurrence, which is a
// schedule at a nominal time, is enqueued once.
//
// These methods are those of the embedded plan, see [periodic.Plan]:
//
//   - Pause(ctx, tx, name) error stops a schedule
//   - Resume(ctx, tx, name) error continues it from now on
//   - Delete(ctx, tx, name) error removes it, and keeps the jobs that are enqueued already
//   - Trigger(ctx, tx, name) ([periodic.Occurrence], error) enqueues an additional job now
//   - Backfill(ctx, tx, name, from, to) (int, error) enqueues the jobs of a period that has passed, and counts them
//   - Table() [*workqueue.Table] is the schedules' table, for low-level operations and statistics
type Schedules struct {
	*periodic.Plan
	client *Client
}

// Schedules returns the client's schedules.
func (c *Client) Schedules() *Schedules { return c.schedules }

func openSchedules(c *Client) (*Schedules, error) {
	s := &Schedules{client: c}
	var err error
	s.Plan, err = periodic.Open(periodic.Options{
		Schema:    c.options.Schema,
		Table:     scheduleTable,
		Insert:    s.insert,
		Live:      s.live,
		Telemetry: c.options.Telemetry,
	})
	return s, err
}

// Scheduler makes a scheduler that runs without a [Worker], for programs whose workers set NoSchedules. Its Run
// enqueues jobs when they are due.
func (s *Schedules) Scheduler(pool *pgxpool.Pool, o periodic.SchedulerOptions) (*periodic.Scheduler, error) {
	return periodic.NewScheduler(pool, s.Plan, o)
}

// Put creates schedules, or changes those that exist by the same name, see [periodic.Plan.Put]. It does not change jobs
// that are enqueued already.
func (s *Schedules) Put(ctx context.Context, tx workqueue.Tx, schedules ...Schedule) error {
	list := make([]periodic.Schedule, len(schedules))
	for i, sc := range schedules {
		template, err := s.template(ctx, sc)
		if err != nil {
			return &partError{fmt.Sprintf("schedule %q", sc.Name), err}
		}
		list[i] = periodic.Schedule{Name: sc.Name, Expr: sc.Expr, Zone: sc.Zone, Rule: sc.Rule, Version: sc.Version,
			Template: template}
	}
	return s.Plan.Put(ctx, tx, list...)
}

// Get reads a schedule as tx sees it. The error is [workqueue.ErrNotFound] if there is none of that name.
func (s *Schedules) Get(ctx context.Context, tx workqueue.Tx, name string) (ScheduleInfo, error) {
	info, err := s.Plan.Get(ctx, tx, name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	return shown(info)
}

// List reads schedules in the byte order of their names.
func (s *Schedules) List(ctx context.Context, tx workqueue.Tx, f periodic.Filter) ([]ScheduleInfo, error) {
	infos, err := s.Plan.List(ctx, tx, f)
	list := make([]ScheduleInfo, 0, len(infos))
	for _, info := range infos {
		shown, showErr := shown(info)
		err = errors.Join(err, showErr)
		list = append(list, shown)
	}
	return list, err
}

// A jobTemplate is the stored form of a schedule's job, from which its occurrences are made.
type jobTemplate struct {
	Kind        string            `json:"kind"`
	Args        []byte            `json:"args"` // encoded, and bound to the schedule
	Queue       string            `json:"queue"`
	Priority    Priority          `json:"priority"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Retry       workqueue.Retry   `json:"retry,omitzero"`
	Headers     map[string]string `json:"headers,omitempty"`
	Ordered     *keyed.Ordered    `json:"ordered,omitempty"`
	Limited     *keyed.Limited    `json:"limited,omitempty"`
}

// template validates a schedule's job and encodes it.
func (s *Schedules) template(ctx context.Context, sc Schedule) ([]byte, error) {
	p, err := s.client.prepareOne(ctx, sc.insert())
	if err != nil {
		return nil, err
	}
	t := jobTemplate{
		Kind: p.kind, Args: p.record.args, Queue: p.record.queue, Priority: p.record.priority,
		MaxAttempts: p.row.MaxAttempts, Retry: p.row.Retry, Headers: p.row.Headers,
	}
	switch g := p.byKey.(type) {
	case keyed.Ordered:
		t.Ordered = &g
	case keyed.Limited:
		t.Limited = &g
	}
	return json.Marshal(t)
}

// byKey returns the rule of the schedule's jobs; nil means none.
func (t jobTemplate) byKey() keyed.Rule {
	switch {
	case t.Ordered != nil:
		return *t.Ordered
	case t.Limited != nil:
		return *t.Limited
	}
	return nil
}

func (t jobTemplate) options() InsertOptions {
	o := InsertOptions{Queue: t.Queue, Priority: t.Priority, MaxAttempts: t.MaxAttempts, Retry: t.Retry,
		Headers: t.Headers, ByKey: t.byKey()}
	if o.ByKey == nil {
		o.ByKey = keyed.None{} // the kind's rule was applied when the schedule was put
	}
	return o
}

func readTemplate(encoded []byte) (t jobTemplate, err error) {
	if err = json.Unmarshal(encoded, &t); err != nil {
		err = fmt.Errorf("txwork: the schedule's template does not decode: %w", err)
	}
	return t, err
}

func shown(info periodic.Info) (ScheduleInfo, error) {
	t, err := readTemplate(info.Template)
	return ScheduleInfo{
		Info: info, Kind: t.Kind, Queue: t.Queue, Priority: t.Priority, MaxAttempts: t.MaxAttempts, Retry: t.Retry,
		ByKey: t.byKey(), Headers: t.Headers,
	}, err
}

// insert implements [periodic.Options].Insert.
func (s *Schedules) insert(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
	t, err := readTemplate(occurrences[0].Template)
	if err != nil {
		return 0, err
	}
	inserts := make([]Insert, len(occurrences))
	for i, o := range occurrences {
		inserts[i] = t.occurrence(o)
	}
	enqueued, err := s.client.EnqueueMany(ctx, tx, inserts...)
	written := 0
	for _, e := range enqueued {
		if !e.Duplicate {
			written++
		}
	}
	return written, err
}

// occurrence returns the job of an occurrence.
func (t jobTemplate) occurrence(o periodic.Occurrence) Insert {
	insert := Insert{Args: &encodedArgs{t.Kind, t.Args}, InsertOptions: t.options(), schedule: o.Schedule,
		occurrence: o.Key}
	insert.ID, insert.ScheduledAt = o.ID, o.DueAt
	insert.Headers = maps.Clone(insert.Headers)
	if insert.Headers == nil {
		insert.Headers = map[string]string{}
	}
	insert.Headers[nominalHeader] = o.Nominal.Format(time.RFC3339Nano)
	return insert
}

// encodedArgs are args that were encoded when their schedule was put.
type encodedArgs struct {
	kind   string
	stored []byte
}

func (a *encodedArgs) Kind() string { return a.kind }

// live implements [periodic.Options].Live.
func (s *Schedules) live(ctx context.Context, tx workqueue.Tx, name string) (n int, err error) {
	err = s.client.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&n) },
		s.client.statements.live, name)
	return n, err
}

// Nominal returns the nominal time of a schedule's job, which identifies the occurrence however late it runs. It
// returns false for other jobs.
func (d *Delivery) Nominal() (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, d.Headers[nominalHeader])
	return at, err == nil && d.Schedule != ""
}
