package model_test

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// hours is the model's clock: whole hours since the game began.
type hours int

const never = hours(-1 << 30)

// A row is the model of a row. It is written from the documentation and shares no code with the library.
type row struct {
	id        uuid.UUID
	key       string
	lane      int
	status    workqueue.Status
	due       hours
	attempts  int
	max       int
	backoff   int // hours for each attempt; 0: that of the table
	token     uuid.UUID
	lockedTo  hours
	completed hours
	failed    hours
	cancelled bool
	lastError string
	alone     int       // leases lost alone
	together  int       // leases lost together with other rows of the token
	noted     uuid.UUID // the token whose other rows have lost their leases
}

func (r *row) ready(now hours) bool   { return r.status == workqueue.Ready && r.due <= now }
func (r *row) expired(now hours) bool { return r.status == workqueue.InProgress && r.lockedTo <= now }

func (r *row) end(as workqueue.Status, now hours) {
	r.status, r.completed, r.failed, r.lockedTo = as, now, never, never
	if as == workqueue.Failed {
		r.failed = now
	}
}

func (r *row) again(due hours) {
	r.status, r.due, r.completed, r.failed, r.lockedTo = workqueue.Ready, due, never, never, never
}

// fault sets the error, but keeps the reason of a cancel.
func (r *row) fault(cause string) {
	if !r.cancelled {
		r.lastError = cause
	}
}

// delay is the backoff after the row's current attempt.
func (r *row) delay() hours {
	if r.backoff > 0 {
		return hours(r.backoff)
	}
	return hours(min(r.attempts, capHours))
}

// retryOrFail is the common effect of a reported failure and an expired lease.
func (r *row) retryOrFail(due, now hours) {
	if r.attempts >= r.max || r.cancelled {
		r.end(workqueue.Failed, now)
	} else {
		r.again(due)
	}
}

// A table is the model of a table.
type table struct {
	rows       []*row
	now        hours
	deleteDone bool
}

func (t *table) find(id uuid.UUID) *row {
	for _, r := range t.rows {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (t *table) where(is func(*row) bool) (found []*row) {
	for _, r := range t.rows {
		if is(r) {
			found = append(found, r)
		}
	}
	return found
}

func (t *table) remove(r *row) {
	t.rows = slices.DeleteFunc(t.rows, func(o *row) bool { return o == r })
}

// A verdict says what a settle did to one row.
type verdict int

const (
	changed verdict = iota
	applied         // already applied by the same settle: nothing to do, and no error
	lost
	gone
)

// settle applies a settle or an extend to one row.
func (t *table) settle(o op, token, id uuid.UUID) verdict {
	r := t.find(id)
	switch {
	case r == nil:
		return gone
	case r.token != token:
		return lost
	case r.status == workqueue.InProgress:
		o.apply(t, r)
		return changed
	case slices.Contains(o.leadsTo, r.status):
		return applied
	}
	return lost
}

// oldest returns the first n rows by a time. The model does not know the order of rows with the same hour.
func oldest(rows []*row, n int, at func(*row) hours) (certain, last []*row) {
	rows = slices.SortedFunc(slices.Values(rows), func(a, b *row) int { return cmp.Compare(at(a), at(b)) })
	if len(rows) <= n {
		return rows, nil
	}
	edge := at(rows[n])
	for _, r := range rows {
		switch {
		case at(r) < edge:
			certain = append(certain, r)
		case at(r) == edge:
			last = append(last, r)
		}
	}
	return certain, last
}

// maxReturns is how often a lost lease does not count.
const maxReturns = 5

// lose counts a lost lease, and reports whether the attempt is given back.
func (r *row) lose(together bool) (back bool) {
	if !together {
		r.alone++
		return false
	}
	back = r.max > 1 && r.alone == 0 && r.together < maxReturns
	r.together++
	return back
}
