package main

import (
	"context"
	"strings"
	"testing"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// Reap does not wait for a fold of another session, and says so.
func TestReapTellsWhoFolds(t *testing.T) {
	c := newMigratedCLI(t)
	holder, err := c.db.Pool.Begin(t.Context())
	must(t, err)
	defer holder.Rollback(context.Background())
	_, err = holder.Exec(t.Context(), "SELECT "+c.db.Schema+".outbox_key_fold(1000)")
	must(t, err)
	asked := 0
	box, err := outbox.Open(outbox.Options{Schema: c.db.Schema,
		Telemetry: workqueue.Telemetry{Observer: func(context.Context, workqueue.Event) { asked++ }}})
	must(t, err)
	if n, busy, err := box.Table().On(c.db.Pool).TryFold(t.Context()); n != 0 || !busy || err != nil || asked != 1 {
		t.Errorf("folded %d, busy %v, %v, after asking %d times", n, busy, err, asked)
	}
	const told = "another session folds, keys and joins are left to it"
	c.run("reap", "outbox").ok().prints(told)
	if got := decode[struct{ Tables []reapedTable }](c.run("reap", "outbox", "--json").ok()).Tables; len(got) != 1 ||
		!got[0].FoldBusy {
		t.Errorf("reaped %+v", got)
	}
	must(t, holder.Rollback(t.Context()))
	if r := c.run("reap", "outbox").ok(); strings.Contains(r.stdout, told) {
		t.Errorf("nobody folds: %s", r.stdout)
	}
}
