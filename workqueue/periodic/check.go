package periodic

import (
	"cmp"
	"fmt"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

const (
	// MaxKey is the maximal length of an [Occurrence]'s key in bytes. Domains allow as much for their keys.
	MaxKey = 255

	// MaxName is the maximal length of a name in bytes. It leaves room in a key of [MaxKey] bytes for the nominal time.
	MaxName = 200

	// MaxExpr is the maximal length of an expression in bytes, far more than any needs.
	MaxExpr = 1000

	// MaxTemplate is the maximal size of a template in bytes: a domain's payload and its encoding.
	MaxTemplate = 2 << 20
)

// A refusal is a [workqueue.InvalidError] that wraps an error of package schedule.
type refusal struct {
	*workqueue.InvalidError
	cause error
}

func (r *refusal) Unwrap() []error { return []error{r.InvalidError, r.cause} }

func refuse(name string, cause error) error {
	return &refusal{&workqueue.InvalidError{Field: fmt.Sprintf("schedule %q", name), Reason: "is refused: " +
		cause.Error()}, cause}
}

// check refuses schedules that the table could not hold, or that can never be due.
func (p *Plan) check(s Schedule) (*schedule.Schedule, error) {
	err := cmp.Or(
		checkName(s.Name),
		validate.Size("expression", len(s.Expr), MaxExpr),
		validate.Size("template", len(s.Template), MaxTemplate),
		checkVersion(s),
		p.table.Check(&workqueue.NewRow{Values: workqueue.ValuesOf(recordOf(s, nil, nil), (*record).columns)}),
	)
	if err != nil {
		return nil, err
	}
	parsed, err := schedule.Parse(s.Expr, s.Zone)
	if err == nil {
		err = s.Rule.Check()
	}
	if err != nil {
		return nil, refuse(s.Name, err)
	}
	return parsed, nil
}

func checkVersion(s Schedule) error {
	if s.Version < 0 {
		return validate.Errorf("version", "of schedule %q is %d, it cannot be negative", s.Name, s.Version)
	}
	return nil
}

func checkName(name string) error {
	if name == "" {
		return validate.Errorf("schedule", "has no name")
	}
	return cmp.Or(
		validate.Size("schedule name", len(name), MaxName),
		validate.Text("schedule name", name),
	)
}

// first is a schedule's next nominal time after now. Intervals count from the anchor, or without one from the second in
// which now lies.
func first(s *schedule.Schedule, anchor *time.Time, now time.Time) (time.Time, bool) {
	from := now.Truncate(time.Second)
	if anchor != nil {
		from = s.OnGrid(*anchor, now)
	}
	return s.Next(from)
}
