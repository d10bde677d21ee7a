package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

const jobsTable = "jobs"

func newJobsCommand(a *app) *cobra.Command {
	return newGroup("jobs", "Look at jobs, cancel and redrive them, and rule their queues",
		newJobsListCommand(a),
		newJobsShowCommand(a),
		newJobsCancelCommand(a),
		newJobsRedriveCommand(a),
		newQueuesCommand(a),
		newQueueChangeCommand(a, "pause", "Stop workers from taking jobs of a queue", "paused", (*jobs.Client).Pause),
		newQueueChangeCommand(a, "resume", "Let workers take jobs of a paused queue again", "resumed", (*jobs.Client).Resume),
		newQueueLimitCommand(a),
	)
}

// withJobs connects and makes sure that the table of jobs exists.
func (a *app) withJobs(ctx context.Context, do func(*database, *jobs.Client) error) error {
	return a.withDatabase(ctx, func(d *database) error {
		c, err := jobs.Open(jobs.Options{Schema: d.Schema, Telemetry: a.telemetry()})
		if err != nil {
			return usageError{err}
		}
		if err := c.Table().CheckVersion(ctx, d.Pool); err != nil {
			return err
		}
		return d.looking(ctx, func() error { return conclude(do(d, c)) }, c.Table())
	})
}

func newJobsCancelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel (ID... | --all-live | FILTER...)",
		Short: "Cancel jobs",
	}
	cancel := a.cancel(cmd, "by txwork jobs cancel")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return cancel(jobsTable, args) }
	return cmd
}

func newJobsRedriveCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive (ID... | --all-failed | FILTER...)",
		Short: "Make failed jobs ready again, with all their attempts",
	}
	redrive := a.redrive(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error { return redrive(jobsTable, args) }
	return cmd
}

// jobsListOptions are the flags of list.
type jobsListOptions struct {
	filter   jobs.Filter
	statuses []string
	after    string
	json     bool
}

func newJobsListCommand(a *app) *cobra.Command {
	var o jobsListOptions
	cmd := newCommand("list", "List jobs, newest first", noArguments)
	flags := cmd.Flags()
	flags.StringVar(&o.filter.Kind, "kind", "", "only jobs of this kind")
	flags.StringVar(&o.filter.Queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&o.filter.Schedule, "schedule", "", "only jobs that this schedule wrote")
	flags.StringSliceVar(&o.statuses, "status", nil,
		"only jobs in this `state`: "+listingNames()+"; repeat for more")
	flags.IntVar(&o.filter.Limit, "limit", defaultListLimit, "jobs of a page")
	flags.StringVar(&o.after, "after", "", "continue after this `id`, the last of the previous page")
	jsonVar(flags, &o.json, jsonUsage, jobsPage{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.complete(); err != nil {
			return err
		}
		return a.withJobs(cmd.Context(), func(d *database, c *jobs.Client) error {
			return a.listJobs(cmd.Context(), d, c, o)
		})
	}
	return cmd
}

func (o *jobsListOptions) complete() (err error) {
	if err := checkLimit(o.filter.Limit); err != nil {
		return err
	}
	if o.after != "" {
		if o.filter.Before, err = uuid.Parse(o.after); err != nil {
			return usagef("--after %q is no id: take it from the page before", o.after)
		}
	}
	o.filter.State, err = parseStates(o.statuses)
	return err
}

// A shownJob is a job without its args and its output.
type shownJob struct {
	ID           uuid.UUID  `json:"id"`
	Kind         string     `json:"kind"`
	Queue        string     `json:"queue"`
	Priority     string     `json:"priority"` // high, normal or low
	Status       string     `json:"status"`   // ready, in_progress, done or failed
	State        string     `json:"state"`    // ready, scheduled, waiting, in_progress, done, failed or cancelled
	Waiting      bool       `json:"waiting"`  // ready, but held back
	Attempts     int        `json:"attempts"` // attempts begun so far
	MaxAttempts  int        `json:"max_attempts"`
	DueAt        time.Time  `json:"due_at"`                  // when it may be claimed, or became due if it was claimed
	CreatedAt    time.Time  `json:"created_at"`              // when it was written
	CompletedAt  *time.Time `json:"completed_at,omitempty"`  // when it ended
	CancelledAt  *time.Time `json:"cancelled_at,omitempty"`  // when its cancel was requested
	LastError    string     `json:"last_error,omitempty"`    // error of its last failed attempt
	Schedule     string     `json:"schedule,omitempty"`      // schedule that wrote it
	Progress     *int       `json:"progress,omitempty"`      // in per cent, as reported by its handler
	ProgressNote string     `json:"progress_note,omitempty"` // note of its handler on the progress
	ArgsBytes    int        `json:"args_bytes"`              // size of its encoded args
}

func newShownJob(i jobs.Info, now time.Time) shownJob {
	return shownJob{
		ID: i.ID, Kind: i.Kind, Queue: i.Queue, Priority: i.Priority.String(), Status: i.Status.String(),
		State: string(stateOf(i.Status, i.Waiting, i.DueAt, i.CancelledAt, now)), Waiting: i.Waiting,
		Attempts: i.Attempts, MaxAttempts: i.MaxAttempts, DueAt: i.DueAt.UTC(), CreatedAt: i.CreatedAt.UTC(),
		CompletedAt: operate.UTC(i.CompletedAt), CancelledAt: operate.UTC(i.CancelledAt), LastError: i.LastError,
		Schedule: i.Schedule,
		Progress: i.Progress, ProgressNote: i.ProgressNote, ArgsBytes: len(i.Args),
	}
}

// stateOf tells the status of a job or timer further apart. Whether its lease has expired is not among what is read.
func stateOf(s workqueue.Status, waiting bool, due time.Time, cancelled *time.Time, now time.Time) workqueue.State {
	switch {
	case s == workqueue.Ready && waiting:
		return workqueue.StateWaiting
	case s == workqueue.Ready && due.After(now):
		return workqueue.StateScheduled
	case s == workqueue.Failed && cancelled != nil:
		return workqueue.StateCancelled
	}
	return workqueue.State(s.String())
}

// when is the most relevant time of the job's state.
func (j shownJob) when() time.Time {
	if j.CompletedAt != nil {
		return *j.CompletedAt
	}
	return j.DueAt
}

func (j shownJob) progress() string {
	if j.Progress == nil {
		return "-"
	}
	return strconv.Itoa(*j.Progress) + "%"
}

// A jobsPage is what list prints.
type jobsPage struct {
	Jobs []shownJob `json:"jobs"`           // the newest first
	Next *uuid.UUID `json:"next,omitempty"` // for --after; missing on the last page
	// Searched is how many jobs were searched, if the page ended there before it was full: next goes on there.
	Searched int `json:"searched,omitempty"`
}

func (a *app) listJobs(ctx context.Context, d *database, c *jobs.Client, o jobsListOptions) error {
	p := jobsPage{Jobs: []shownJob{}}
	var now time.Time
	err := d.readTx(ctx, func(tx workqueue.Tx, at time.Time) error {
		now = at
		from, err := d.jobsSearchedFrom(ctx, tx, o.filter)
		if err != nil {
			return err
		}
		o.filter.From = from
		list, more, err := pageOf(o.filter.Limit, jobs.MaxPage, func(limit int, last *jobs.Info) ([]jobs.Info, error) {
			f := o.filter
			if f.Limit = limit; last != nil {
				f.Before = last.ID
			}
			return c.List(ctx, tx, f)
		})
		for _, i := range list {
			p.Jobs = append(p.Jobs, newShownJob(i, now))
		}
		switch {
		case more:
			p.Next = &list[len(list)-1].ID
		case from != uuid.Nil:
			p.Next, p.Searched = &from, operate.MaxSearched
		}
		return err
	})
	if err != nil {
		return err
	}
	if o.json {
		return a.printJSON(p)
	}
	return a.printJobs(p, now)
}

// jobsSearchedFrom returns the smallest id that a page of a filter searches. It is zero if nothing needs to be bounded.
func (d *database) jobsSearchedFrom(ctx context.Context, tx workqueue.Tx, f jobs.Filter) (from uuid.UUID, err error) {
	if f.Kind == "" && f.Queue == "" && f.Schedule == "" && len(f.State) == 0 || livesOnly(f.State) {
		return from, nil
	}
	before := f.Before
	if before == uuid.Nil {
		before = uuid.Max
	}
	end, err := searchEnd(ctx, tx, "SELECT r.id::text FROM "+pgx.Identifier{d.Schema, jobsTable}.Sanitize()+
		" AS r WHERE r.id < $1::uuid ORDER BY r.id DESC OFFSET $2::int LIMIT 1", before)
	if err != nil || end == "" {
		return from, err
	}
	return uuid.Parse(end)
}

func (a *app) printJobs(p jobsPage, now time.Time) error {
	g := newGrid(a.stdout, "ID", "KIND", "QUEUE", "PRIORITY", "STATUS", "DUE OR ENDED", "ATTEMPTS", "PROGRESS",
		"LAST ERROR")
	for _, j := range p.Jobs {
		g.add(j.ID.String(), named(j.Kind), named(j.Queue), j.Priority, j.State,
			stamp(j.when(), now),
			fmt.Sprintf("%d/%d", j.Attempts, j.MaxAttempts), j.progress(), dashed(j.LastError))
	}
	if err := g.flush(); err != nil || p.Next == nil {
		return err
	}
	if p.Searched > 0 {
		return a.hintSearch("job", p.Searched, p.Next.String())
	}
	return a.hintMore(p.Next.String())
}
