package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

func newJobsShowCommand(a *app) *cobra.Command {
	cmd := newCommand("show ID", "Show everything about one job, and how its attempts ended", cobra.ExactArgs(1))
	payload := payloadsFlag(cmd)
	asJSON := jsonFlag(cmd, shownJobRow{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		return a.withJobs(cmd.Context(), func(d *database, c *jobs.Client) error {
			return a.showJob(cmd.Context(), d, c, ids[0], *payload, *asJSON)
		})
	}
	return cmd
}

// A shownJobRow is what show prints of a job.
type shownJobRow struct {
	operate.Shown
	History []endedAttempt `json:"history"` // its attempts, the first one first
}

// An endedAttempt is how an attempt ended.
type endedAttempt struct {
	Attempt int       `json:"attempt"` // its number, from 1
	EndedAt time.Time `json:"ended_at"`
	Outcome string    `json:"outcome"`         // succeeded, failed, lost or cancelled
	Error   string    `json:"error,omitempty"` // why it failed
}

func (a *app) showJob(ctx context.Context, d *database, c *jobs.Client, id uuid.UUID, payload, asJSON bool) error {
	r, err := d.Show(ctx, c.Table(), id, payloadBytes(payload), nil)
	if err != nil {
		return err
	}
	history := []endedAttempt{}
	err = d.readTx(ctx, func(tx workqueue.Tx, _ time.Time) error {
		list, err := c.History(ctx, tx, id)
		for _, h := range list {
			history = append(history, endedAttempt{h.Attempt, h.EndedAt.UTC(), string(h.Outcome), h.Error})
		}
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(shownJobRow{*r, history})
	}
	if err := a.printRow(r); err != nil {
		return err
	}
	return a.printHistory(history, r.Now)
}

func (a *app) printHistory(history []endedAttempt, now time.Time) error {
	if len(history) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	g := newGrid(a.stdout, "ATTEMPT", "ENDED", "OUTCOME", "ERROR")
	for _, h := range history {
		g.add(fmt.Sprint(h.Attempt), stamp(h.EndedAt, now), h.Outcome, dashed(h.Error))
	}
	return g.flush()
}
