package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/google/uuid"
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

	// Queue, Priority, MaxAttempts, Retry, Unique, ByKey and Headers are the settings of every job, as in
	// [Insert]. The settings of the kind, which they override, and those of the client are those of the program
	// that puts the schedule, at that time, see [Schedules].
	Queue       string
	Priority    Priority
	MaxAttempts int
	Retry       workqueue.Retry
	Unique      *Unique
	ByKey       keyed.Rule
	Headers     map[string]string
}

func (s Schedule) insert() Insert {
	return Insert{
		Args: s.Args, Queue: s.Queue, Priority: s.Priority, MaxAttempts: s.MaxAttempts, Retry: s.Retry,
		Unique: s.Unique, ByKey: s.ByKey, Headers: s.Headers, schedule: s.Name,
	}
}

// A ScheduleInfo is a stored schedule, with the settings of its jobs, see [Schedule].
type ScheduleInfo struct {
	periodic.Info
	Kind        string
	Args        []byte // as they are stored
	Queue       string
	Priority    Priority
	MaxAttempts int
	Retry       workqueue.Retry
	Unique      bool // its jobs have a unique key
	ByKey       keyed.Rule
	Headers     map[string]string
}

// Schedules are periodic jobs: rows in a table of their own, from which schedulers enqueue the jobs that are due. Every
// [Worker] has a scheduler, and any number of processes may run them; there is no leader. An occurrence, which is a
// schedule at a nominal time, is enqueued once.
//
// How the jobs of a schedule are enqueued is decided by the program that puts it: by the [Schedule], by the kind as
// that program has registered or declared it, and by its client. All of this is stored with the schedule. The program
// that fires it adds nothing, and need not know the kind; a change takes effect when the schedule is put again. How a
// job is run, by contrast, is always decided by the worker that runs it: its handler, middleware, Timeout and
// RunsWithin.
//
// A [Unique] holds for the jobs of a schedule, too. An occurrence whose key is taken has fired, and the schedule goes
// on: with [Keep] and [Reject] no job is written for it, which the scheduler logs; with [Replace] the holder, if it is
// ready, becomes the occurrence's job and keeps its own id. Backfill treats occurrences in the same way, and counts
// those that were written or have replaced a job. It writes an occurrence that had no job if the key is free now.
// Trigger returns the holder's id and Duplicate, and with [Reject] a [*UniqueError].
//
// These methods are those of the embedded plan, see [periodic.Plan]:
//
//   - Pause(ctx, tx, name) error stops a schedule
//   - Resume(ctx, tx, name) error continues it from now on
//   - Delete(ctx, tx, name) error removes it, and keeps the jobs that are enqueued already
//   - Trigger(ctx, tx, name) ([periodic.Occurrence], error) enqueues an additional job now
//   - Backfill(ctx, tx, name, from, to) (int, error) enqueues the jobs of a period that has passed, and counts them
//   - PreviewBackfill(ctx, tx, name, from, to) ([][periodic.Occurrence], error) says what Backfill would find, and
//     writes nothing; it does not look for unique keys that are taken
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
		Schema:       c.options.Schema,
		Table:        scheduleTable,
		Insert:       s.insert,
		MarkExisting: s.markExisting,
		Live:         s.live,
		Telemetry:    c.options.Telemetry,
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
	Unique      *uniqueTemplate   `json:"unique,omitempty"`
}

// A uniqueTemplate is the unique key of a schedule's jobs, which is the same for all of them.
type uniqueTemplate struct {
	Key        string   `json:"key"` // as it is stored with a job
	While      States   `json:"while,omitempty"`
	UntilStart bool     `json:"until_start,omitempty"`
	OnConflict Conflict `json:"on_conflict,omitempty"`
}

// template validates a schedule's job and encodes it.
func (s *Schedules) template(ctx context.Context, sc Schedule) ([]byte, error) {
	var p prepared
	if err := s.client.prepareOne(ctx, sc.insert(), &p); err != nil {
		return nil, err
	}
	t := jobTemplate{
		Kind: p.record.kind, Args: p.record.args, Queue: p.record.queue, Priority: p.record.priority,
		MaxAttempts: cmp.Or(p.row.MaxAttempts, s.client.table.Spec().MaxAttempts), Retry: p.row.Retry,
		Headers: p.row.Headers,
	}
	if u := p.unique; u != nil {
		t.Unique = &uniqueTemplate{Key: p.record.uniqueKey, While: u.While, UntilStart: u.Until != UntilEnd,
			OnConflict: u.OnConflict}
	}
	switch g := p.record.byKey.(type) {
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

// insert returns what all jobs of the schedule have in common.
func (t jobTemplate) insert() Insert {
	i := Insert{Queue: t.Queue, Priority: t.Priority, MaxAttempts: t.MaxAttempts, Retry: t.Retry, Headers: t.Headers,
		ByKey: t.byKey()}
	if i.ByKey == nil {
		i.ByKey = keyed.None{} // the kind's rule was applied when the schedule was put
	}
	return i
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
		Info: info, Kind: t.Kind, Args: t.Args, Queue: t.Queue, Priority: t.Priority,
		MaxAttempts: t.MaxAttempts, Retry: t.Retry,
		Unique: t.Unique != nil, ByKey: t.byKey(), Headers: t.Headers,
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
	for i, e := range enqueued {
		o := &occurrences[i]
		switch {
		case !e.Duplicate || e.Replaced:
			written++
			o.ID = e.ID
		case e.ID != o.ID: // otherwise the occurrence was written before
			o.ID, o.Duplicate = e.ID, true
		}
	}
	if err == nil {
		s.sayHeld(ctx, t, occurrences)
	}
	return written, err
}

// sayHeld logs which occurrences have no job because another job holds their unique key.
func (s *Schedules) sayHeld(ctx context.Context, t jobTemplate, occurrences []periodic.Occurrence) {
	var last *periodic.Occurrence
	n := 0
	for i, o := range occurrences {
		if o.Duplicate && !o.Triggered {
			last = &occurrences[i]
			n++
		}
	}
	if n > 0 {
		cmp.Or(s.client.options.Telemetry.Logger, slog.Default()).InfoContext(ctx,
			"occurrences of a schedule have no job, because another job holds their unique key", "table",
			s.client.table.Name(), "schedule", last.Schedule, "kind", t.Kind, "queue", t.Queue, "occurrences", n,
			"last", last.Nominal, "held_by", last.ID)
	}
}

// occurrence returns the job of an occurrence.
func (t jobTemplate) occurrence(o periodic.Occurrence) Insert {
	args := &scheduledArgs{kind: t.Kind, stored: t.Args}
	insert := t.insert()
	insert.Args, insert.schedule, insert.once = args, o.Schedule, true
	insert.ID, insert.ScheduledAt = o.ID, o.DueAt
	insert.Headers = maps.Clone(insert.Headers)
	if insert.Headers == nil {
		insert.Headers = map[string]string{}
	}
	insert.Headers[nominalHeader] = o.Nominal.Format(time.RFC3339Nano)
	if u := t.Unique; u != nil {
		args.uniqueKey = u.Key
		insert.Unique = &Unique{While: u.While, OnConflict: u.OnConflict}
		if u.UntilStart {
			insert.Unique.Until = UntilStart // the rule of UntilStartInTurn is in the template
		}
		if u.OnConflict == Reject && !o.Triggered {
			insert.Unique.OnConflict = Keep // an error would have the schedule try again until the key is free
		}
	}
	return insert
}

// scheduledArgs are args that were encoded, and whose unique key was made, when their schedule was put.
type scheduledArgs struct {
	kind      string
	stored    []byte
	uniqueKey string
}

func (a *scheduledArgs) Kind() string { return a.kind }

// markExisting implements [periodic.Options].MarkExisting.
func (s *Schedules) markExisting(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) error {
	ids := make([]uuid.UUID, len(occurrences))
	for i, o := range occurrences {
		ids[i] = o.ID
	}
	return s.client.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var i int
		err := scan(&i)
		if err == nil {
			occurrences[i-1].Duplicate = true
		}
		return err
	}, s.client.statements.existing, ids)
}

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
