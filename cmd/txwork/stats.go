package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

func newStatsCommand(a *app) *cobra.Command {
	cmd := newCommand("stats [TABLE]", "Show how many rows the tables have, and how old they are",
		cobra.MaximumNArgs(1))
	asJSON := jsonFlag(cmd, counted{}, hearing{}, happened{})
	announcers := cmd.Flags().Bool("announcers", false, "show who notifies workers, and how often")
	during := cmd.Flags().Duration("for", defaultHearing, "how long --announcers listens")
	exact := exactFlag(cmd.Flags())
	var since age
	cmd.Flags().Var(&since, "since", "show what happened since this `long` ago, such as 36h or 7d, from the table history")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *during <= 0 || !*announcers && cmd.Flags().Changed("for") {
			return usagef("--for is %v: it must be positive, and is for --announcers", *during)
		}
		if since.Given && (*announcers || since.Duration < minSince || since.Duration > maxSince) {
			return usagef("--since is %v: it must be between %v and %v, and is not for --announcers", since.Duration,
				minSince, maxSince)
		}
		if *exact && (*announcers || since.Given) {
			return usagef("--exact is for counts of rows, not for --announcers and --since")
		}
		return a.withDatabase(cmd.Context(), func(d *database) error {
			if since.Given {
				return a.showHappened(cmd.Context(), d, args, since.Duration, *asJSON)
			}
			if *announcers {
				return a.showAnnouncers(cmd.Context(), d, args, *during, *asJSON)
			}
			all, err := d.counted(cmd.Context(), args, *exact)
			if err != nil {
				return explain(err)
			}
			if *asJSON {
				return a.printJSON(all)
			}
			if len(all.Tables) > 0 {
				err = a.printStats(all.Tables)
			}
			return errors.Join(err, a.printLogs(a.stdout, all.Logs))
		})
	}
	return cmd
}

// counted is what stats prints without --announcers.
type counted struct {
	Tables []tableStats  `json:"tables"` // in the order of their names
	Logs   []operate.Log `json:"logs"`   // outboxes that are a log: at most one
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

	AtLeast     bool `json:"at_least"`           // there may be more ready, in_progress and expired rows
	MoreLater   bool `json:"scheduled_at_least"` // there may be more scheduled rows
	MoreWaiting bool `json:"waiting_at_least"`   // there may be more waiting rows
	MoreFailed  bool `json:"failed_at_least"`    // there may be more failed and cancelled rows
}

// counted counts the table that is named, or all of them and the log.
func (d *database) counted(ctx context.Context, names []string, exact bool) (c counted, err error) {
	c = counted{Tables: []tableStats{}, Logs: []operate.Log{}}
	logOnly := len(names) > 0 && isLog(d.Schema, names[0])
	if !logOnly {
		if c.Tables, err = d.stats(ctx, names, exact); err != nil || len(names) > 0 {
			return c, err
		}
	}
	c.Logs, err = d.Logs(ctx)
	if err == nil && logOnly && len(c.Logs) == 0 {
		_, err = d.table(ctx, names[0]) // says what there is
	}
	return c, err
}

func (d *database) stats(ctx context.Context, names []string, exact bool) (all []tableStats, err error) {
	if exact {
		return d.exactStats(ctx, names)
	}
	if names, err = d.names(ctx, names...); err != nil {
		return nil, err
	}
	err = d.eachFacts(ctx, names, func(r survey.Reader, t *survey.Facts) error {
		s, err := boundedStatsOf(ctx, r, t)
		all = append(all, s)
		return err
	})
	return all, err
}

func (d *database) exactStats(ctx context.Context, names []string) ([]tableStats, error) {
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
		all[i] = tableStats{Table: t.Name(), Ready: s.Ready, Scheduled: s.Scheduled, InProgress: s.InProgress,
			Expired: s.Expired, Waiting: s.Waiting, Failed: s.Failed, Cancelled: s.Cancelled,
			OldestReady: s.OldestReady.Seconds(), Partial: s.Partial}
	}
	return all, nil
}

// eachFacts calls do for each of some tables, of which it reads [operate.CountedRows] rows in a state: as many of those
// that are due, among which rows in progress are found.
func (d *database) eachFacts(ctx context.Context, names []string, do func(survey.Reader, *survey.Facts) error) error {
	reader := survey.Reader{From: d.Pool, Limit: operate.ReadLimit}
	return reader.Together(ctx, func(r survey.Reader) error {
		var facts []survey.Facts
		err := r.Read(ctx, func(tx pgx.Tx) (err error) {
			facts, err = survey.Tables(ctx, tx, d.Schema, operate.CountedRows, names...)
			return err
		})
		for i := 0; err == nil && i < len(facts); i++ {
			facts[i].DueRows = operate.CountedRows
			err = do(r, &facts[i])
		}
		return err
	})
}

func boundedStatsOf(ctx context.Context, r survey.Reader, t *survey.Facts) (s tableStats, err error) {
	w, cut, err := operate.Depth(ctx, r, t)
	if err != nil {
		return s, err
	}
	held, err := survey.HeldRows(ctx, r, t, operate.CountedRows)
	if err != nil {
		return s, err
	}
	ended, err := survey.CountUnsuccessful(ctx, r, t, operate.CountedRows)
	if err != nil {
		return s, err
	}
	return tableStats{Table: t.Schema + "." + t.Name, Ready: w.Ready, Scheduled: w.Scheduled, InProgress: w.InProgress,
		Expired: w.Expired, Waiting: held.Rows, Failed: ended.Failed, Cancelled: ended.Cancelled,
		OldestReady: w.OldestReady, Partial: t.Filtered, AtLeast: w.AtLeast || cut, MoreLater: w.MoreLater || cut,
		MoreWaiting: held.More || t.Filtered, MoreFailed: ended.More || t.Filtered}, nil
}

func (a *app) printStats(all []tableStats) error {
	g := newGrid(a.stdout, "TABLE", "READY", "SCHEDULED", "IN PROGRESS", "EXPIRED", "WAITING", "FAILED", "CANCELLED",
		"OLDEST READY")
	more := false
	for _, s := range all {
		oldest := "-"
		if s.Ready > 0 {
			oldest = rough(postgres.Seconds(s.OldestReady))
		}
		g.add(s.Table, atLeast(s.Ready, s.AtLeast), atLeast(s.Scheduled, s.MoreLater), atLeast(s.InProgress, s.AtLeast),
			atLeast(s.Expired, s.AtLeast), atLeast(s.Waiting, s.MoreWaiting), atLeast(s.Failed, s.MoreFailed),
			atLeast(s.Cancelled, s.MoreFailed), oldest)
		more = more || !s.Partial && (s.AtLeast || s.MoreLater || s.MoreWaiting || s.MoreFailed)
	}
	err := g.flush()
	for _, s := range all {
		if s.Partial && err == nil {
			_, err = fmt.Fprintf(a.stdout, "%s: %s\n", s.Table, partial)
		}
	}
	if more && err == nil {
		_, err = fmt.Fprintln(a.stdout, moreThanCounted)
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

// subscriptionStats counts the messages of a subscription of a log: those that it has not settled are ready, or in
// progress with a page that is in hand.
func (d *database) subscriptionStats(ctx context.Context, name string) (s workqueue.Stats, err error) {
	err = d.Read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, fmt.Sprintf(`
			SELECT count(*) FILTER (WHERE r.status = 0 AND NOT r.waiting AND r.due_at <= now()),
			       count(*) FILTER (WHERE r.status = 0 AND NOT r.waiting AND r.due_at > now()),
			       count(*) FILTER (WHERE r.status = 1), count(*) FILTER (WHERE r.status = 0 AND r.waiting),
			       count(*) FILTER (WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL)
			FROM %s AS r
			WHERE r.subscription = $1 AND (r.completed_at IS NULL OR r.failed_at IS NOT NULL)`,
			pgx.Identifier{d.Schema, postgres.LogTable + "_parked"}.Sanitize()), name).
			Scan(&s.Ready, &s.Scheduled, &s.InProgress, &s.Waiting, &s.Failed)
	})
	if err != nil {
		return s, err
	}
	logs, err := d.Logs(ctx)
	for _, l := range logs {
		for _, of := range l.Subscriptions {
			switch {
			case of.Name != name:
			case of.Paused:
				return s, nil
			default:
				s.Ready, s.InProgress = s.Ready+of.Messages, s.InProgress+of.InHand
				if of.AtLeast {
					s.Ready = max(s.Ready, 1)
				}
				return s, nil
			}
		}
	}
	return s, cmp.Or(err, noSubscription(name))
}

// errNoSubscription is the end of the error.
var errNoSubscription = errors.New("subscribe first, or correct the name")

func noSubscription(name string) error {
	return fmt.Errorf("%s has no subscription %q: %w", postgres.LogTable, name, errNoSubscription)
}

// hasSubscription reports whether the log has a subscription of that name.
func (d *database) hasSubscription(ctx context.Context, name string) (has bool, err error) {
	err = d.Read(ctx, func(tx pgx.Tx) error {
		query := "SELECT EXISTS (SELECT FROM %s AS s WHERE s.name = $1)"
		return tx.QueryRow(ctx, fmt.Sprintf(query, pgx.Identifier{d.Schema, postgres.LogTable +
			"_subscription"}.Sanitize()), name).Scan(&has)
	})
	return has, err
}
