package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

func newStatsCommand(a *app) *cobra.Command {
	cmd := newCommand("stats [TABLE]", "Show how many rows the tables have, and how old they are",
		cobra.MaximumNArgs(1))
	asJSON := jsonFlag(cmd, counted{}, hearing{})
	announcers := cmd.Flags().Bool("announcers", false, "show who notifies workers, and how often")
	during := cmd.Flags().Duration("for", defaultHearing, "how long --announcers listens")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *during <= 0 || !*announcers && cmd.Flags().Changed("for") {
			return usagef("--for is %v: it must be positive, and is for --announcers", *during)
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			if *announcers {
				return a.showAnnouncers(cmd.Context(), d, args, *during, *asJSON)
			}
			all, err := d.stats(cmd.Context(), args)
			if err != nil {
				return explain(err)
			}
			if *asJSON {
				return a.printJSON(counted{all})
			}
			return a.printStats(all)
		})
	}
	return cmd
}

// counted is what stats prints without --announcers.
type counted struct {
	Tables []tableStats `json:"tables"` // in the order of their names
}

// tableStats are a table's [workqueue.Stats], with the unit in the name of each field that has one.
type tableStats struct {
	Table       string  `json:"table"`                // with its schema
	Ready       int64   `json:"ready"`                // due now
	Scheduled   int64   `json:"scheduled"`            // due later
	InProgress  int64   `json:"in_progress"`          // claimed
	Expired     int64   `json:"expired"`              // of those, with an expired lease
	Waiting     int64   `json:"waiting"`              // held back
	Failed      int64   `json:"failed"`               // dead letters
	Cancelled   int64   `json:"cancelled"`            // ended by a cancel
	OldestReady float64 `json:"oldest_ready_seconds"` // how long the oldest ready row has been due
	Partial     bool    `json:"partial"`              // row-level security hides rows from the role
}

func (d *database) stats(ctx context.Context, names []string) ([]tableStats, error) {
	tables, err := d.tables(ctx, names...)
	if err != nil {
		return nil, err
	}
	all := make([]tableStats, len(tables))
	for i, t := range tables {
		s, err := t.On(d.Pool).Stats(ctx)
		if err != nil {
			return nil, err
		}
		all[i] = tableStats{t.Name(), s.Ready, s.Scheduled, s.InProgress, s.Expired, s.Waiting, s.Failed, s.Cancelled,
			s.OldestReady.Seconds(), s.Partial}
	}
	return all, nil
}

func (a *app) printStats(all []tableStats) error {
	g := newGrid(a.stdout, "TABLE", "READY", "SCHEDULED", "IN PROGRESS", "EXPIRED", "WAITING", "FAILED", "CANCELLED",
		"OLDEST READY")
	for _, s := range all {
		oldest := "-"
		if s.Ready > 0 {
			oldest = rough(postgres.Seconds(s.OldestReady))
		}
		g.add(s.Table, fmt.Sprint(s.Ready), fmt.Sprint(s.Scheduled), fmt.Sprint(s.InProgress), fmt.Sprint(s.Expired),
			fmt.Sprint(s.Waiting), fmt.Sprint(s.Failed), fmt.Sprint(s.Cancelled), oldest)
	}
	err := g.flush()
	for _, s := range all {
		if s.Partial && err == nil {
			_, err = fmt.Fprintf(a.stdout, "%s: %s\n", s.Table, partial)
		}
	}
	return err
}

// topicStats counts the outbox's messages of some topics.
func (d *database) topicStats(ctx context.Context, topics []string) (s workqueue.Stats, err error) {
	query := fmt.Sprintf(`
		SELECT count(*) FILTER (WHERE r.status = 0 AND r.due_at <= now()),
		       count(*) FILTER (WHERE r.status = 0 AND r.due_at > now()),
		       count(*) FILTER (WHERE r.status = 1),
		       (SELECT count(*) FROM %[1]s AS w WHERE w.completed_at IS NULL AND w.waiting AND w.topic = ANY ($1::text[])),
		       (SELECT count(*) FROM %[1]s AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL
		          AND f.topic = ANY ($1::text[]))
		FROM %[1]s AS r
		WHERE r.completed_at IS NULL AND NOT r.waiting AND r.topic = ANY ($1::text[])`, pgx.Identifier{d.Schema, "outbox"}.Sanitize())
	err = d.Read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, query, topics).Scan(&s.Ready, &s.Scheduled, &s.InProgress, &s.Waiting,
			&s.Failed)
	})
	return s, err
}
