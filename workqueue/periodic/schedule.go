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

// A Schedule says when occurrences come and what they are made of.
type Schedule struct {
	// Name is the schedule's key: 1 to [MaxName] bytes.
	Name string

	// Expr is a cron expression, a descriptor or an interval, see package schedule.
	Expr string

	// Zone is the IANA zone in which Expr is read. Default: UTC.
	Zone string

	// Rule says what becomes of late and of overlapping occurrences, and spreads them in time.
	Rule schedule.Rule

	// Template is what the domain makes an occurrence of: at most [MaxTemplate] bytes, opaque to this package.
	Template []byte
}

// An Info is a schedule as the table has it. Times are the database's.
type Info struct {
	Schedule
	ID         uuid.UUID
	Status     workqueue.Status // Done: it never fires again
	Paused     bool
	NextAt     *time.Time // nominal time of the next occurrence; nil where there is none or it is paused
	LastAt     *time.Time // nominal time of the last occurrence that was written
	BufferedAt *time.Time // nominal time of the occurrence that waits for the end of another
	Fired      int64      // planned occurrences that were written
	Skipped    int64      // planned occurrences that were dropped, by the misfire or the overlap policy
	LastError  string     // why occurrences could not be written, the last time that happened
	CreatedAt  time.Time
}

// An Occurrence is what a domain makes a row of.
type Occurrence struct {
	Schedule string
	// Key is unique to the occurrence, at most [MaxKey] bytes: that of a planned one says the schedule's name
	// and the nominal time. The domain's table has to keep it unique and to ignore what is there already.
	Key string
	// Nominal is when the plan has it, by which the application tells one occurrence from another.
	Nominal time.Time
	// DueAt is Nominal and the schedule's jitter.
	DueAt    time.Time
	Template []byte
	// Triggered says that it is not of the plan, see [Plan.Trigger].
	Triggered bool
}

// planned are occurrences of a schedule at nominal times.
func planned(s Schedule, nominal []time.Time) []Occurrence {
	occurrences := make([]Occurrence, len(nominal))
	for i, at := range nominal {
		at = at.UTC()
		occurrences[i] = Occurrence{
			Schedule: s.Name,
			Key:      "schedule/" + s.Name + "/" + at.Format(time.RFC3339Nano),
			Nominal:  at,
			DueAt:    at.Add(s.Rule.Offset(s.Name, at)),
			Template: s.Template,
		}
	}
	return occurrences
}

// triggered is an occurrence outside the plan.
func triggered(s Schedule, now time.Time) Occurrence {
	return Occurrence{
		Schedule:  s.Name,
		Key:       "schedule/" + s.Name + "/trigger/" + uuid.NewString(),
		Nominal:   now.UTC(),
		DueAt:     now.UTC(),
		Template:  s.Template,
		Triggered: true,
	}
}
