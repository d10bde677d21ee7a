package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// A shownQueue is a queue's rules and what is in it; a limit that it does not have is left out.
type shownQueue struct {
	Name       string  `json:"name"`
	Paused     bool    `json:"paused"`
	Ready      int64   `json:"ready"`                     // jobs that are due
	Scheduled  int64   `json:"scheduled"`                 // jobs that are due later
	Waiting    int64   `json:"waiting"`                   // jobs that are held back
	InProgress int64   `json:"in_progress"`               // jobs that are running
	MaxRunning int     `json:"max_running,omitempty"`     // the limit of jobs in progress; missing without one
	Rate       float64 `json:"rate_per_second,omitempty"` // the limit of jobs started in a second; missing without one
	Burst      int     `json:"burst,omitempty"`           // number of jobs that may start at once after a quiet period

	AtLeast     bool `json:"at_least,omitempty"`           // there may be more ready and in_progress jobs
	MoreLater   bool `json:"scheduled_at_least,omitempty"` // there may be more scheduled jobs
	MoreWaiting bool `json:"waiting_at_least,omitempty"`   // there may be more waiting jobs
}

func newQueuesCommand(a *app) *cobra.Command {
	cmd := newCommand("queues", "Show the queues of jobs, their limits and their depths", noArguments)
	asJSON := jsonFlag(cmd, queuesList{})
	exact := exactFlag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withJobs(cmd.Context(), func(d *database, c *jobs.Client) error {
			read := d.boundedQueues
			if *exact {
				read = func(ctx context.Context) (queuesList, error) { return d.queues(ctx, c) }
			}
			list, err := read(cmd.Context())
			if err != nil {
				return err
			}
			list.Partial = d.Partial
			if *asJSON {
				return a.printJSON(list)
			}
			return a.printQueues(list)
		})
	}
	return cmd
}

// A queuesList is what queues prints.
type queuesList struct {
	Queues  []shownQueue `json:"queues"`            // in the order of their names
	More    bool         `json:"more,omitempty"`    // there may be more queues than were read
	Partial bool         `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

func (d *database) queues(ctx context.Context, c *jobs.Client) (list queuesList, err error) {
	list.Queues = []shownQueue{}
	err = d.readTx(ctx, func(tx workqueue.Tx, _ time.Time) error {
		all, err := c.Queues(ctx, tx)
		for _, q := range all {
			list.Queues = append(list.Queues, shownQueue{Name: q.Name, Paused: q.Paused, Ready: q.Ready,
				Scheduled: q.Scheduled, Waiting: q.Waiting, InProgress: q.InProgress, MaxRunning: q.MaxRunning,
				Rate: q.Rate, Burst: q.Burst})
		}
		return err
	})
	return list, err
}

// boundedQueues counts up to [operate.CountedRows] jobs in a state, from the index of claims and that of rows that are
// held back.
func (d *database) boundedQueues(ctx context.Context) (list queuesList, err error) {
	list.Queues = []shownQueue{}
	err = d.eachFacts(ctx, []string{jobsTable}, func(r survey.Reader, t *survey.Facts) error {
		parts, cut, err := operate.Parts(ctx, r, t)
		if err != nil {
			return err
		}
		held, more, err := survey.HeldLanes(ctx, r, t, operate.CountedRows)
		if err != nil {
			return err
		}
		list.More = cut
		waiting := map[string]int64{}
		for _, h := range held {
			waiting[h.Name] = h.Rows
			if !slices.ContainsFunc(parts, func(p operate.Part) bool { return p.Name == h.Name }) {
				parts = append(parts, operate.Part{Name: h.Name, AtLeast: cut, MoreLater: cut})
			}
		}
		for _, p := range parts {
			list.Queues = append(list.Queues, shownQueue{Name: p.Name, Paused: p.Paused, Ready: p.Ready,
				Scheduled: p.Scheduled, Waiting: waiting[p.Name], InProgress: p.InProgress,
				MaxRunning: int(p.MaxRunning), Rate: p.Rate, Burst: int(p.Burst), AtLeast: p.AtLeast,
				MoreLater: p.MoreLater, MoreWaiting: more || t.Filtered})
		}
		return nil
	})
	slices.SortFunc(list.Queues, func(a, b shownQueue) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

func (a *app) printQueues(list queuesList) error {
	g := newGrid(a.stdout, "QUEUE", "PAUSED", "READY", "SCHEDULED", "WAITING", "IN PROGRESS", "MAX RUNNING", "RATE",
		"BURST")
	more := list.More
	for _, q := range list.Queues {
		rate := "-"
		if q.Rate > 0 {
			rate = strconv.FormatFloat(q.Rate, 'g', -1, 64) + "/s"
		}
		g.add(named(q.Name), yesOrDash(q.Paused), atLeast(q.Ready, q.AtLeast), atLeast(q.Scheduled, q.MoreLater),
			atLeast(q.Waiting, q.MoreWaiting), atLeast(q.InProgress, q.AtLeast), positive(q.MaxRunning), rate,
			positive(q.Burst))
		more = more || q.AtLeast || q.MoreLater || q.MoreWaiting
	}
	err := g.flush()
	if list.More && err == nil {
		_, err = fmt.Fprintln(a.stdout, "there may be more queues than were read")
	}
	if more && !list.Partial && err == nil {
		_, err = fmt.Fprintln(a.stdout, moreThanCounted)
	}
	return err
}

// yesOrDash formats what is so or not for a cell.
func yesOrDash(is bool) string {
	if is {
		return "yes"
	}
	return "-"
}

// positive formats a number for a cell, or a dash if it is 0.
func positive(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// newQueueChangeCommand makes a command that changes one queue.
func newQueueChangeCommand(
	a *app, verb, short, done string, change func(*jobs.Client, context.Context, workqueue.Tx, string) error,
) *cobra.Command {
	cmd := newCommand(verb+" QUEUE", short, cobra.ExactArgs(1))
	asJSON := jsonFlag(cmd, changedQueue{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.changeQueue(cmd.Context(), queueAct(verb, args[0]), args[0], done, *asJSON, change)
	}
	return cmd
}

// queueAct is a change of a queue, for the audit.
func queueAct(verb, queue string) operate.Act {
	return operate.Act{Verb: verb, Target: jobsTable, About: limitedQueue{Queue: queue}}
}

// A limitedQueue is what the audit says of a queue.
type limitedQueue struct {
	Queue      string  `json:"queue"`
	MaxRunning int     `json:"max_running,omitempty"`
	Rate       float64 `json:"rate,omitempty"`
	Burst      int     `json:"burst,omitempty"`
}

// A changedQueue is what pause, resume and limit print.
type changedQueue struct {
	Queue   string `json:"queue"`
	Known   bool   `json:"known"`             // it had a rule or a live job before
	Paused  bool   `json:"paused,omitempty"`  // set by pause
	Resumed bool   `json:"resumed,omitempty"` // set by resume
	Limited bool   `json:"limited,omitempty"` // set by limit
}

func (a *app) changeQueue(
	ctx context.Context, act operate.Act, queue, done string, asJSON bool,
	change func(*jobs.Client, context.Context, workqueue.Tx, string) error,
) error {
	return a.withJobs(ctx, func(d *database, c *jobs.Client) error {
		known := false
		err := d.Act(ctx, act, func(tx workqueue.Tx) (n int, err error) {
			if known, err = knowsQueue(ctx, c, tx, queue); err != nil {
				return 0, err
			}
			return 1, change(c, ctx, tx, queue)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(changedQueue{queue, known, done == "paused", done == "resumed", done == "limited"})
		}
		hint := ""
		if !known {
			hint = " (it had no rule and has no live job: see 'txwork jobs queues' for those that do)"
		}
		_, err = fmt.Fprintf(a.stdout, "queue %s %s%s\n", named(queue), done, hint)
		return err
	})
}

// knowsQueue tells whether a queue has a rule or a live job. An unknown name may be a typing error, or a queue that is
// not used yet. No job is counted: a queue is paused when it has many. No index has those that wait and all others.
func knowsQueue(ctx context.Context, c *jobs.Client, tx workqueue.Tx, queue string) (known bool, err error) {
	spec := c.Table().Spec()
	live := "EXISTS (SELECT FROM " + pgx.Identifier{spec.Schema, spec.Table}.Sanitize() +
		" WHERE queue = $1 AND completed_at IS NULL AND "
	err = tx.Query(ctx, func(scan func(...any) error) error { return scan(&known) }, "SELECT EXISTS (SELECT FROM "+
		pgx.Identifier{spec.Schema, spec.Table + "_queue"}.Sanitize()+" WHERE name = $1::text) OR "+
		live+"NOT waiting) OR "+live+"waiting)", queue)
	return known, err
}

func newQueueLimitCommand(a *app) *cobra.Command {
	var l jobs.Limits
	cmd := newCommand("limit QUEUE (--max-running N | --rate R)...", "Limit how many jobs of a queue run at the same time, or start in a second",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.IntVar(&l.MaxRunning, "max-running", 0, "jobs in progress at once")
	flags.Float64Var(&l.Rate, "rate", 0, "jobs started per second, on average, such as 0.5")
	flags.IntVar(&l.Burst, "burst", 0, "with --rate, jobs started at once after a quiet time (default: those of a "+
		"second)")
	cmd.MarkFlagsOneRequired("max-running", "rate")
	asJSON := jsonFlag(cmd, changedQueue{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set := func(c *jobs.Client, ctx context.Context, tx workqueue.Tx, queue string) error {
			return c.SetLimits(ctx, tx, queue, l)
		}
		act := queueAct("limit", args[0])
		act.About = limitedQueue{args[0], l.MaxRunning, l.Rate, l.Burst}
		return a.changeQueue(cmd.Context(), act, args[0], "limited", *asJSON, set)
	}
	return cmd
}
