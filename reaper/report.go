package reaper

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// A Report is what one round did.
type Report struct {
	// Tables has an entry for every table, in the order they were given.
	Tables []TableReport `json:"tables"`

	// Unserved are tables of txwork, in the schemas of the reaper's own tables, that the reaper was not given and that
	// no other reaper, `txwork reap` or procedure has maintained for a day. Their expired leases are never requeued.
	// Tables that have never had a row are not listed. [Run] looks for such tables, too, but only logs each once.
	Unserved []string `json:"unserved,omitempty"`

	// More says that a bound of [Options] cut the round short, and that another round has work to do.
	More bool `json:"more"`

	// Duration is the length of the round, in nanoseconds in JSON.
	Duration time.Duration `json:"duration"`
}

// A TableReport is what one round did to one table.
type TableReport struct {
	Table string `json:"table"`

	// Leader says whether this reaper leads the table. If not, another reaper maintains it, and the other fields are
	// empty.
	Leader bool `json:"leader"`

	// Term is the fencing term of the round, or that of the other leader.
	Term int64 `json:"term"`

	Counts
	More     bool          `json:"more"`            // see Report.More
	Duration time.Duration `json:"duration"`        // spent on this table, in nanoseconds in JSON
	Error    string        `json:"error,omitempty"` // why the table was not served to the end

	// Skipped is how many rows could not be processed, for example because a foreign key keeps them from being deleted.
	// They were left, and all others processed. Rows has the first ten of them.
	Skipped int          `json:"skipped"`
	Rows    []SkippedRow `json:"skipped_rows,omitempty"`

	ends   bool // an error ended the work on it in this round
	served bool // the round served it; a turn of Run skips tables that are not due yet
}

// A SkippedRow is a row that could not be processed.
type SkippedRow struct {
	Work string `json:"work"` // reap, purge_done or purge_failed
	workqueue.Skipped
}

// maxSkippedRows is how many skipped rows a report names.
const maxSkippedRows = 10

// skip notes rows that were skipped.
func (t *task) skip(rows []workqueue.Skipped) {
	t.report.Skipped += len(rows)
	for _, row := range rows {
		t.skips = append(t.skips, row.ID)
		if len(t.report.Rows) < maxSkippedRows {
			t.report.Rows = append(t.report.Rows, SkippedRow{t.kind, row})
		}
	}
}

// say adds to the report what kept the table from being served to the end.
func (t *TableReport) say(problem string) {
	if t.Error != "" {
		problem = t.Error + "; " + problem
	}
	t.Error = problem
}

// problem is what kept the table from being served to the end, or what it skipped.
func (t TableReport) problem() string {
	if t.Skipped == 0 {
		return t.Error
	}
	skipped := fmt.Sprintf("%d rows skipped, such as %s of %s", t.Skipped, t.Rows[0].Work, t.Rows[0].Skipped)
	if t.Error == "" {
		return skipped
	}
	return t.Error + "; " + skipped
}

// skippedError returns an error that names the tables in which rows were skipped, and nil if there are none.
func (r Report) skippedError() error {
	var errs []error
	for _, t := range r.Tables {
		if t.Skipped > 0 {
			errs = append(errs, fmt.Errorf("%w: %s: %s", ErrSkipped, t.Table, TableReport{Skipped: t.Skipped,
				Rows: t.Rows}.problem()))
		}
	}
	return errors.Join(errs...)
}

// Counts are numbers of rows, of committed batches only.
type Counts struct {
	Requeued     int `json:"requeued"`      // lease expired: Ready again
	Failed       int `json:"failed"`        // lease expired, attempts used up or cancelled: Failed
	PurgedDone   int `json:"purged_done"`   // deleted, Done or cancelled for longer than the retention
	PurgedFailed int `json:"purged_failed"` // deleted, dead letters for longer than the retention
	Swept        int `json:"swept"`         // changed by the table's own sweeps: released, ended or removed
}

// Leader reports whether this reaper led any of the tables.
func (r Report) Leader() bool {
	return slices.ContainsFunc(r.Tables, func(t TableReport) bool { return t.Leader })
}

// Total is what the round did to all tables.
func (r Report) Total() Counts {
	var sum Counts
	for _, t := range r.Tables {
		sum.add(t.Counts)
	}
	return sum
}

func (c *Counts) add(d Counts) {
	c.Requeued += d.Requeued
	c.Failed += d.Failed
	c.PurgedDone += d.PurgedDone
	c.PurgedFailed += d.PurgedFailed
	c.Swept += d.Swept
}

func (c Counts) rows() int { return c.Requeued + c.Failed + c.PurgedDone + c.PurgedFailed + c.Swept }
