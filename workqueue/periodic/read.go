package periodic

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// MaxPage bounds the schedules of one [Plan.List], and is its default.
const MaxPage = 1000

// A Filter selects schedules. The zero value selects the first [MaxPage].
type Filter struct {
	Prefix string // of the name
	After  string // the last name of the previous page
	Limit  int    // of the page; 0 is [MaxPage], the maximum
}

// Get reads a schedule as tx sees it. The error is [workqueue.ErrNotFound] if there is none with that name.
func (p *Plan) Get(ctx context.Context, tx workqueue.Tx, name string) (Info, error) {
	found, err := p.read(ctx, tx, name)
	return found.shown(), err
}

// List reads schedules in the byte order of their names.
func (p *Plan) List(ctx context.Context, tx workqueue.Tx, f Filter) ([]Info, error) {
	if f.Limit < 0 || f.Limit > MaxPage {
		return nil, validate.Errorf("limit", "is %d, it must be between 1 and %d, or 0 for the most", f.Limit, MaxPage)
	}
	f.Limit = cmp.Or(f.Limit, MaxPage)
	if err := cmp.Or(validate.Text("prefix", f.Prefix), validate.Text("after", f.After)); err != nil {
		return nil, err
	}
	var list []Info
	err := p.rows(ctx, tx, func(r row) { list = append(list, r.shown()) }, p.statements.list, f.After, f.Prefix,
		f.Limit)
	return list, err
}

// read reads a schedule without locking it.
func (p *Plan) read(ctx context.Context, tx workqueue.Tx, name string) (row, error) {
	if err := checkName(name); err != nil {
		return row{}, err
	}
	found, err := p.one(ctx, tx, p.statements.get, name)
	return found, notFound(name, err)
}

func notFound(name string, err error) error {
	if err != workqueue.ErrNotFound {
		return err
	}
	return fmt.Errorf("txwork: schedule %q %w", name, workqueue.ErrNotFound)
}

// A row is a schedule and the time at which it was read.
type row struct {
	Info
	now time.Time // by the schedule's clock, which is the database's unless a test has advanced it

	// ahead is by how much the schedule's clock is ahead of the database's, in a test: txworktest.Advance stores it as
	// the header txwork-ahead, in microseconds. Nominal times are by the schedule's clock, and due times by the
	// database's.
	ahead time.Duration

	owed   debts
	anchor *time.Time // one of the times of every interval; nil for a schedule of an earlier version of the table

	triggers triggers

	unreadable error // what SQL has written as a policy is none; the Rule has the default
}

// shown is the row for readers. A paused schedule stores the next time at which it stopped, but readers see none.
func (r row) shown() Info {
	if r.Paused || r.Status >= workqueue.Done {
		r.NextAt = nil
	}
	if r.unreadable != nil {
		r.LastError = r.unreadable.Error()
	}
	return r.Info
}

// one reads a row. The error is [workqueue.ErrNotFound] if there is none.
func (p *Plan) one(ctx context.Context, tx workqueue.Tx, statement string, args ...any) (found row, err error) {
	err = workqueue.ErrNotFound
	readErr := p.rows(ctx, tx, func(r row) { found, err = r, nil }, statement, args...)
	return found, cmp.Or(readErr, err)
}

func (p *Plan) rows(ctx context.Context, tx workqueue.Tx, each func(row), statement string, args ...any) error {
	return p.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		r, err := scanRow(scan)
		if err == nil {
			each(r)
		}
		return err
	}, statement, args...)
}

func scanRow(scan func(...any) error) (row, error) {
	var r row
	var misfire, overlap string
	var grace, jitter int64
	var ahead, owed, triggers string
	var resumed *time.Time
	err := scan(&r.ID, &r.Name, &r.Expr, &r.Zone, &misfire, &r.Rule.Cap, &grace, &overlap, &jitter, &r.Template,
		&r.Paused,
		&r.NextAt, &r.LastAt, &r.BufferedAt, &r.Fired, &r.Skipped, &r.Status, &r.LastError, &r.CreatedAt,
		&r.Failures, &ahead, &owed, &r.anchor, &r.Version, &resumed, &triggers, &r.now)
	if err != nil {
		return r, err
	}
	micros, _ := strconv.ParseInt(ahead, 10, 64) // a header that is no number must not hide the other schedules
	r.ahead = time.Duration(micros) * time.Microsecond
	r.now = r.now.Add(r.ahead)
	r.Rule.Grace, r.Rule.Jitter = time.Duration(grace)*time.Microsecond, time.Duration(jitter)*time.Microsecond
	var unknown [2]error
	r.Rule.Misfire, unknown[0] = schedule.ParseMisfire(misfire)
	r.Rule.Overlap, unknown[1] = schedule.ParseOverlap(overlap)
	var unreadable [2]error
	r.owed, unreadable[0] = readDebts(owed)
	r.Owed = r.owed.count()
	r.triggers, unreadable[1] = readTriggers(triggers)
	r.unreadable = cmp.Or(unknown[0], unknown[1], unreadable[0], unreadable[1])
	if resumed != nil {
		r.resume(*resumed)
	}
	return r, nil
}

// resume plans a schedule from the time at which SQL has ended its pause. An expression that cannot be read is an error
// of the decision.
func (r *row) resume(at time.Time) {
	parsed, err := schedule.Parse(r.Expr, r.Zone)
	if err != nil {
		return
	}
	phase := r.phase()
	if next, ok := first(parsed, &phase, at.Add(r.ahead)); ok {
		r.NextAt = &next
	}
}
