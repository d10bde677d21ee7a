package txworktest_test

import (
	"testing"
	"time"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
)

// A schedule runs every night at 02:00. In three nights there are three reports.
func ExampleAdvance() {
	_ = func(t *testing.T, db *txworktest.DB, client *jobs.Client, worker *jobs.Worker) {
		for range 3 {
			db.Advance(t, db.Pool, 24*time.Hour)
			txworktest.DrainAll(t, db.Pool, worker) // enqueues the job of this night, and runs it
		}
		txworktest.RequireCount(t, db.Pool, client, 3, txworktest.Kind("report"))
	}
}

// The application has registered the handlers of its relay.
func ExampleInject_wired() {
	_ = func(t *testing.T, db *txworktest.DB, box *outbox.Outbox, relay *outbox.Relay) {
		faults := txworktest.NewFaults(t)
		faults.After(1, txworktest.LoseLease(db.Pool, box))
		relay.Wrap(func(h outbox.Handler) outbox.Handler { return txworktest.Inject(faults, h) })
		for _, h := range txworktest.DrainAll(t, db.Pool, relay) {
			t.Log(h) // lease lost, done
		}
	}
}
