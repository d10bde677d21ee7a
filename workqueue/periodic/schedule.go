package periodic

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
)

const (
	second = time.Second
	minute = time.Minute
)

// A Schedule says when occurrences are due and what they contain.
type Schedule struct {
	// Name is the schedule's key: 1 to [MaxName] bytes.
	Name string

	// Expr is a cron expression, a descriptor or an interval, see package schedule.
	Expr string

	// Zone is the IANA zone in which Expr is read. Default: UTC.
	Zone string

	// Rule says what happens to late and to overlapping occurrences, and spreads occurrences in time.
	Rule schedule.Rule

	// Version is that of the definition, such as a number that you raise whenever you change it. [Plan.Put] leaves a
	// schedule alone whose version is higher, so that programs of an earlier release, which start again during a
	// deployment, do not undo the change. Default: 0; among equal versions the last one that is put wins.
	Version int64

	// Template is the data from which the domain makes an occurrence: at most [MaxTemplate] bytes, opaque to this
	// package.
	Template []byte
}

// An Info is a stored schedule. Times are by the database's clock.
type Info struct {
	Schedule
	ID         uuid.UUID
	Status     workqueue.Status // Done: it never fires again
	Paused     bool
	NextAt     *time.Time // nominal time of the next occurrence; nil if there is none or the schedule is paused
	LastAt     *time.Time // nominal time of the last occurrence that was written
	BufferedAt *time.Time // nominal time of the occurrence that waits for the end of another
	Fired      int64      // planned occurrences that were written, or are Duplicates
	Skipped    int64      // planned occurrences that were dropped, by the misfire or the overlap policy
	Owed       int        // occurrences of earlier definitions that are still to be written
	Failures   int        // how many times in a row its occurrences could not be written
	LastError  string     // the last error of writing occurrences
	CreatedAt  time.Time
}

// An Occurrence is one due time of a schedule, for which a domain writes a row.
type Occurrence struct {
	Schedule string
	// ID is the id of the domain's row, a UUID version 7. That of a planned occurrence is derived from the schedule and
	// the nominal time, so an occurrence that is written again, after a restore to an earlier moment, has the same one.
	ID uuid.UUID
	// Key identifies the occurrence, with at most [MaxKey] bytes. The key of a planned occurrence consists of the
	// schedule's name and the nominal time. The domain's table has to keep keys unique, and Insert has to skip existing
	// ones.
	Key string
	// Nominal is the planned time, by which an application distinguishes occurrences.
	Nominal time.Time
	// DueAt is Nominal plus the schedule's jitter.
	DueAt    time.Time
	Template []byte
	// Triggered says that the occurrence is not part of the plan, see [Plan.Trigger].
	Triggered bool
	// Duplicate says that the domain wrote no row for the occurrence, because another row stands in its way, such as a
	// job with the same unique key. ID is then that of the other row. The occurrence has fired all the same.
	Duplicate bool
}

// planned returns a schedule's occurrences at nominal times.
func (r row) planned(nominal []time.Time) []Occurrence {
	occurrences := make([]Occurrence, len(nominal))
	for i, at := range nominal {
		at = at.UTC()
		key := "schedule/" + r.Name + "/" + at.Format(time.RFC3339Nano)
		occurrences[i] = Occurrence{
			Schedule: r.Name,
			ID:       occurrenceID(r.ID, key, at),
			Key:      key,
			Nominal:  at,
			DueAt:    at.Add(r.Rule.Offset(r.Name, at)).Add(-r.ahead),
			Template: r.Template,
		}
	}
	return occurrences
}

// triggered returns an occurrence outside the plan, due at a time of the schedule's clock.
func (r row) triggered(id uuid.UUID, at time.Time) Occurrence {
	return Occurrence{
		Schedule:  r.Name,
		ID:        id,
		Key:       "schedule/" + r.Name + "/trigger/" + id.String(),
		Nominal:   at.UTC(),
		DueAt:     at.Add(-r.ahead).UTC(),
		Template:  r.Template,
		Triggered: true,
	}
}
