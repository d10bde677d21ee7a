package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

const (
	// minSince is the step of history, and sinceMinutes up to when it is read by minutes.
	minSince, sinceMinutes = time.Minute, 3 * time.Hour
	maxSince               = 10 * 365 * 24 * time.Hour
)

// happened is what stats prints with --since.
type happened struct {
	Since  time.Time       `json:"since"`  // the begin of the first minute or hour that is counted
	Tables []happenedTable `json:"tables"` // and their lanes, those of which nothing is known left out
}

// A happenedTable is the history of a table or of a lane of it, with percentiles that are up to 41 % too high.
type happenedTable struct {
	Table     string   `json:"table"`
	Lane      string   `json:"lane,omitempty"`   // missing for the whole table; _OTHER: those beyond the first hundred
	Enqueued  *int64   `json:"enqueued"`         // null if not known
	Done      int64    `json:"done"`             // handled with success
	Retried   int64    `json:"retried"`          // failed, and attempted again
	Dead      int64    `json:"dead"`             // failed for good
	Snoozed   int64    `json:"snoozed"`          // put back for later
	Cancelled int64    `json:"cancelled"`        // ended by a cancel
	Lost      int64    `json:"lost"`             // leases that had expired when their worker settled
	Expired   int64    `json:"expired"`          // leases that a reaper ended
	Wait50    *float64 `json:"wait_p50_seconds"` // half of the rows waited for no longer; null if none did
	Wait95    *float64 `json:"wait_p95_seconds"` // 95 % waited for no longer
	Run50     *float64 `json:"run_p50_seconds"`  // half of the handlers ran for no longer
	Run95     *float64 `json:"run_p95_seconds"`  // 95 % of them
}

// happened reads the history of the tables that are named, or of all.
func (d *database) happened(ctx context.Context, names []string, since time.Duration) (happened, error) {
	h := happened{Tables: []happenedTable{}}
	names, err := d.names(ctx, names...)
	if err != nil {
		return h, err
	}
	r := survey.HistoryRange{Length: since, Step: since, Hours: since > sinceMinutes, Now: true}
	for _, name := range names {
		r.Tables = append(r.Tables, name)
		if log, is := strings.CutSuffix(name, "_parked"); is { // its messages
			r.Tables = append(r.Tables, log)
		}
	}
	lines, cut, err := survey.History(ctx, survey.Reader{From: d.Pool, Limit: operate.ReadLimit}, d.Schema, r)
	if err == nil && cut {
		err = fmt.Errorf("the history of these tables and so much time is more than is read at once")
	}
	for _, l := range lines {
		h.Since = l.All.At
		all := l.All
		h.Tables = append(h.Tables, happenedTable{l.Table, l.Lane, all.Enqueued, all.Done, all.Retried, all.Dead,
			all.Snoozed, all.Cancelled, all.Lost, all.Expired, percentile(all.Wait(0.5)), percentile(all.Wait(0.95)),
			percentile(all.Run(0.5)), percentile(all.Run(0.95))})
	}
	return h, err
}

func (a *app) showHappened(ctx context.Context, d *database, names []string, since time.Duration, asJSON bool) error {
	h, err := d.happened(ctx, names, since)
	if err != nil {
		return explain(err)
	}
	if asJSON {
		return a.printJSON(h)
	}
	return a.printHappened(h)
}

func percentile(d time.Duration, some bool) *float64 {
	if !some {
		return nil
	}
	s := d.Seconds()
	return &s
}

func (a *app) printHappened(h happened) error {
	if len(h.Tables) == 0 {
		_, err := fmt.Fprintln(a.stdout, "No history of this time: workers write it every 30 seconds, and maintenance "+
			"keeps it.")
		return err
	}
	g := newGrid(a.stdout, "TABLE", "LANE", "ENQUEUED", "DONE", "RETRIED", "DEAD", "SNOOZED", "CANCELLED", "LOST",
		"EXPIRED", "WAIT P50", "P95", "RUN P50", "P95")
	for _, t := range h.Tables {
		enqueued := "-"
		if t.Enqueued != nil {
			enqueued = fmt.Sprint(*t.Enqueued)
		}
		g.add(t.Table, t.Lane, enqueued, fmt.Sprint(t.Done), fmt.Sprint(t.Retried), fmt.Sprint(t.Dead),
			fmt.Sprint(t.Snoozed), fmt.Sprint(t.Cancelled), fmt.Sprint(t.Lost), fmt.Sprint(t.Expired),
			took(t.Wait50), took(t.Wait95), took(t.Run50), took(t.Run95))
	}
	if err := g.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "Since %s.\n", h.Since.UTC().Format(time.RFC3339))
	return err
}

// took is a percentile: the end of the bucket that it is in.
func took(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprint(time.Duration(*s * float64(time.Second)).Round(time.Millisecond))
}
