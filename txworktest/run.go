package txworktest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// run runs a worker's drain, and records what it has done.
type run struct {
	testing.TB
	q       Querier
	drains  []*workqueue.Drain
	table   string // the worker's own
	runs    map[uuid.UUID]int
	total   int
	most    int // the largest allowed total
	handled []Handled
}

func newRun(t testing.TB, q Querier, d *workqueue.Drain) *run {
	t.Helper()
	r := &run{TB: t, q: q, drains: d.Parts(), table: d.Namespace(), runs: map[uuid.UUID]int{}, most: MaxRuns}
	for _, d := range r.drains {
		d.Limit = 1
	}
	return r
}

func (r *run) drain() {
	r.Helper()
	for len(r.step()) > 0 {
	}
}

// step lets each of the drains handle at most one row.
func (r *run) step() (found []Handled) {
	r.Helper()
	for _, d := range r.drains {
		before := statesOf(r, r.q, d.Namespace())
		err := r.process(d)
		after := statesOf(r, r.q, d.Namespace())
		found = append(found, compare(d.Namespace(), before, after, lostIn(err))...)
	}
	r.handled = append(r.handled, found...)
	r.bound(found)
	return found
}

// process retries if the connection was lost before it had done anything, because the pool may hold connections that a
// fault has terminated.
func (r *run) process(d *workqueue.Drain) error {
	r.Helper()
	for attempt := 0; ; attempt++ {
		n, err := d.Process(r.Context())
		switch lost := isConnectionLoss(err); {
		case lost && n == 0 && attempt < maxDeadConnections:
			continue
		case err == nil || errors.Is(err, workqueue.ErrLeaseLost) || errors.Is(err, workqueue.ErrGone) || lost && n > 0:
			return err
		}
		r.Fatalf("txworktest: %s: %v", d.Namespace(), err)
	}
}

func lostIn(err error) map[uuid.UUID]bool {
	lost := map[uuid.UUID]bool{}
	if settle, ok := errors.AsType[*workqueue.SettleError](err); ok {
		for _, id := range settle.Lost {
			lost[id] = true
		}
	}
	return lost
}

// bound ends the test if handlers run so often that the drain would probably never end.
func (r *run) bound(found []Handled) {
	r.Helper()
	for _, h := range found {
		r.runs[h.ID]++
		r.total++
		if r.runs[h.ID] > MaxRunsOfRow {
			r.Fatalf("txworktest: a row of %s was handled %d times and is due again: does its handler put it back "+
				"for ever?\n  %s",
				h.Table, MaxRunsOfRow, h)
		}
	}
	if r.total > r.most {
		r.Fatalf("txworktest: handlers of %s ran %d times and there is more: does each enqueue the next?\n%s", r.table,
			r.most, r.left())
	}
}

// maxIdle is how often forward may move the clock without any row being handled: twelve days in all.
const maxIdle = 20

// forward moves the clock to the next due time or the next end of a lease, and reports whether there is one. If it has
// moved the clock before and no row was handled, it moves further each time, because a rule, such as a rate limit, may
// hold due rows back for a while.
func (r *run) forward(idle int) bool {
	r.Helper()
	by, ok := r.next()
	if !ok {
		return false
	}
	if idle > maxIdle {
		r.Fatalf("txworktest: rows of %s are due and the worker does not claim them: are they of another queue, or "+
			"is theirs paused?\n%s", r.table, r.left())
	}
	if idle > 0 {
		by += time.Second << idle
	}
	schema, name, _ := strings.Cut(r.table, ".")
	advance(r, r.q, by, schema, name)
	return true
}

// next returns the time until a row is due or a lease has expired, plus a microsecond.
func (r *run) next() (time.Duration, bool) {
	r.Helper()
	schema, name, _ := strings.Cut(r.table, ".")
	text := fmt.Sprintf(`
		SELECT (greatest(ceil(extract(epoch FROM n.at - now()) * 1000000), 0) + 1)::bigint::text
		FROM (
			SELECT min(coalesce(r.locked_until, r.due_at)) AS at
			FROM %q.%q AS r
			WHERE r.completed_at IS NULL AND NOT r.waiting AND r.due_at < '9000-01-01'
		) AS n
		WHERE n.at IS NOT NULL`, schema, name)
	next := persistently(r, func() ([]string, error) { return tryQuery(r.Context(), r.q, text) })
	if len(next) == 0 {
		return 0, false
	}
	micros, err := strconv.ParseInt(next[0], 10, 64)
	if err != nil {
		r.Fatalf("txworktest: %v", err)
	}
	return time.Duration(micros) * time.Microsecond, true
}

// left describes the rows of the table, for a message.
func (r *run) left() string {
	r.Helper()
	states := statesOf(r, r.q, r.table)
	lines := []string{fmt.Sprintf("%s has %s", r.table, count(len(states)))}
	for _, s := range states {
		if len(lines) > shownRows {
			return strings.Join(append(lines, "  …"), "\n")
		}
		lines = append(lines, "  "+s.String())
	}
	return strings.Join(lines, "\n")
}
