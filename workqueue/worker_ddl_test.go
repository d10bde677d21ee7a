package workqueue_test

import (
	"context"
	"strings"
	"testing"

	"github.com/txwork/txwork/workqueue"
)

// A migration beside a running worker changes the type of a column that a prepared claim returns. The worker prepares
// the claim again, and logs nothing.
func TestWorkerBesideDDL(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.start(workqueue.WorkerOptions{}, func(context.Context, *noteClaim) error { return nil })
	for _, ddl := range []string{
		"ALTER TABLE notes ALTER COLUMN payload TYPE varchar(100)",
		"ALTER TABLE notes ALTER COLUMN payload TYPE varchar(200)",
		"ALTER TABLE notes ALTER COLUMN payload TYPE text",
	} {
		r.awaitStatus(workqueue.Done, r.insertMany("t", 20)...)
		r.exec(ddl)
	}
	ids := r.insertMany("t", 20)
	r.awaitStatus(workqueue.Done, ids...)
	for line := range strings.Lines(r.Logs.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("logged %s", line)
		}
	}
	for _, id := range ids {
		if n := r.row(id).Attempts; n != 1 {
			t.Errorf("a row took %d attempts", n)
		}
	}
}
