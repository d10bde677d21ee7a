package workqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// Sweep calls the table's own sweeps (Spec.Sweeps), each in a transaction of its own where the Queue is on a pool, and
// returns how many rows they changed. limit bounds each of them. If one sweep fails, the others still run. Safe to run
// anywhere, any number of times.
func (q *Queue) Sweep(ctx context.Context, limit int) (int, error) {
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	total := 0
	var errs []error
	for _, suffix := range q.table.spec.Sweeps {
		n, err := q.sweepOne(ctx, suffix, limit)
		total += n
		errs = append(errs, err)
	}
	return total, errors.Join(errs...)
}

// SweepOne calls one of the table's sweeps, see [Queue.Sweep].
func (q *Queue) SweepOne(ctx context.Context, suffix string, limit int) (int, error) {
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	if !slices.Contains(q.table.spec.Sweeps, suffix) {
		return 0, invalid("sweep", "is %q, which is not one of the table's", suffix)
	}
	return q.sweepOne(ctx, suffix, limit)
}

func (q *Queue) sweepOne(ctx context.Context, suffix string, limit int) (n int, err error) {
	var told string
	c := conn.Call{
		Statement: conn.Statement{
			Name: suffix, Params: []string{"max_rows"},
			Text: fmt.Sprintf("SELECT %s($1::int), coalesce(pg_catalog.current_setting('txwork.told_%s', true), '')",
				q.table.view.Function(suffix), suffix),
		},
		Args: map[string]any{"max_rows": limit},
		Row:  func(scan func(...any) error) error { return scan(&n, &told) },
	}
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Sweep, limit)
	err = q.exec.run(ctx, c)
	call.End(telemetry.Event{Changed: n, Err: err})
	if err == nil && n > 0 {
		q.table.tell(ctx, told)
	}
	return n, err
}

// tell logs what a sweep has told, see [Spec].Sweeps.
func (t *Table) tell(ctx context.Context, told string) {
	var all []map[string]any
	if json.Unmarshal([]byte(told), &all) != nil {
		return // it has told nothing
	}
	for _, facts := range all {
		message, _ := facts["message"].(string)
		var attrs []slog.Attr
		for _, name := range slices.Sorted(maps.Keys(facts)) {
			if name != "message" {
				attrs = append(attrs, slog.Any(name, facts[name]))
			}
		}
		t.telemetry.Log(ctx, slog.LevelWarn, message, attrs...)
	}
}

// anyLive tells whether there are rows that have not ended.
func (q *Queue) anyLive(ctx context.Context) (found bool, err error) {
	err = q.exec.run(ctx, conn.Call{
		Statement: conn.Statement{Name: "any_live", Text: "SELECT " + q.liveText()},
		Row:       func(scan func(...any) error) error { return scan(&found) },
	})
	return found, err
}

func (q *Queue) liveText() string {
	rows := "EXISTS (SELECT FROM " + q.table.view.Table + " AS t WHERE t.completed_at IS NULL AND "
	return "(" + rows + "NOT t.waiting) OR " + rows + "t.waiting))"
}

// anyWaiting tells whether rows are held back. It reads the index of such rows only.
func (q *Queue) anyWaiting(ctx context.Context) (found bool, err error) {
	err = q.exec.run(ctx, conn.Call{
		Statement: conn.Statement{
			Name: "any_waiting",
			Text: "SELECT EXISTS (SELECT FROM " + q.table.view.Table +
				" AS t WHERE t.completed_at IS NULL AND t.waiting)",
		},
		Reads: true,
		Row:   func(scan func(...any) error) error { return scan(&found) },
	})
	return found, err
}
