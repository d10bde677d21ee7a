package jobs

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A MissingError says that a job has waited for jobs whose rows are gone, so that it cannot read how they ended or what
// they recorded. Usually retention has deleted them: done and cancelled jobs are kept for the [Options].Retention, and
// dead letters for the [Options].FailedRetention, counted from their own ends. A handler that can do with the others
// finds this error with errors.As, and goes on. errors.Is finds [workqueue.ErrNotFound] in it.
type MissingError struct {
	Job     uuid.UUID   // the job that has waited
	Known   int         // jobs that it has waited for
	Missing int         // those of them whose rows are gone
	IDs     []uuid.UUID // the ids of the missing ones; fewer, if their memberships or the join are gone, too
}

func (e *MissingError) Error() string {
	first := ""
	if len(e.IDs) > 0 {
		first = fmt.Sprintf(", among them %s", e.IDs[0])
	}
	return fmt.Sprintf("txwork: the rows of %d of the %d jobs that job %s has waited for are gone%s: set a retention "+
		"that outlasts the wait, or handle a jobs.MissingError", e.Missing, e.Known, e.Job, first)
}

func (e *MissingError) Is(target error) bool { return target == workqueue.ErrNotFound }

// A census compares the jobs that a join knows with those that were found.
type census struct {
	known, found int
	gone         []uuid.UUID
}

// count takes one row of a join's members, and reports whether it is that of a job.
func (c *census) count(expected int, id uuid.UUID, kind string) bool {
	switch {
	case kind != "":
		c.found++
	case id != uuid.Nil:
		c.gone = append(c.gone, id)
	}
	c.known = max(c.known, expected, c.found+len(c.gone))
	return kind != ""
}

func (c *census) missing() int { return c.known - c.found }

// error returns a [*MissingError] about what the job has waited for, or nil.
func (c *census) error(job uuid.UUID) error {
	if c.missing() <= 0 {
		return nil
	}
	return &MissingError{Job: job, Known: c.known, Missing: c.missing(), IDs: c.gone}
}

// tasks collects the tasks that were found.
func (c *census) tasks(into *[]TaskInfo) func(scan func(...any) error) error {
	return func(scan func(...any) error) error {
		var t TaskInfo
		var expected int
		err := scan(&expected, &t.ID, &t.Name, &t.Kind, &t.Status, &t.Waiting, &t.Attempts, &t.DueAt, &t.CompletedAt,
			&t.CancelledAt, &t.LastError)
		if err == nil && c.count(expected, t.ID, t.Kind) {
			*into = append(*into, t)
		}
		return err
	}
}
