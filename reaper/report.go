package reaper

import (
	"slices"
	"time"
)

// A Report is what one round did.
type Report struct {
	// Tables has an entry for every table, in the order they were given.
	Tables []TableReport `json:"tables"`

	// Unserved are tables of txwork in the schemas of the reaper's that it was not given, and that no other reaper,
	// `txwork reap` or procedure has maintained for a day. Expired leases in them are never requeued. Tables that have
	// never had a row are not among them. [Run] looks for them, and only logs each once.
	Unserved []string `json:"unserved,omitempty"`

	// More tells that a bound of [Options] cut the round short and another round has work to do.
	More bool `json:"more"`

	// Duration is the length of the round, in nanoseconds in JSON.
	Duration time.Duration `json:"duration"`
}

// A TableReport is what one round did to one table.
type TableReport struct {
	Table string `json:"table"`

	// Leader tells whether this reaper leads the table. If not, another does its work, and the rest is empty.
	Leader bool `json:"leader"`

	// Term is the fencing term of the round, or of the other leader.
	Term int64 `json:"term"`

	Counts
	More     bool          `json:"more"`            // see Report.More
	Duration time.Duration `json:"duration"`        // spent on this table, in nanoseconds in JSON
	Error    string        `json:"error,omitempty"` // why the table was not served to the end

	served bool // it was due; a turn of Run may be early for the others
}

// Counts are numbers of rows, of committed batches only.
type Counts struct {
	Requeued     int `json:"requeued"`      // lease ended: Ready again
	Failed       int `json:"failed"`        // lease ended, attempts used up or cancelled: Failed
	PurgedDone   int `json:"purged_done"`   // deleted, Done or cancelled for longer than the retention
	PurgedFailed int `json:"purged_failed"` // deleted, dead letters for longer than the retention
	Swept        int `json:"swept"`         // changed by the table's own sweeps: released, ended or removed
}

// Leader tells whether this reaper led any of the tables.
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
