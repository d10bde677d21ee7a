package workqueue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A worker with a cooldown leaves rows that come just after a claim to the next claim. Its stop does not wait for the
// cooldown, and leaves rows that it has not claimed unchanged.
func TestACooldownPutsOffTheNextClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	var begun atomic.Int32
	w := r.startIdle(workqueue.WorkerOptions{ClaimCooldown: time.Hour}, func(context.Context, *noteClaim) error {
		begun.Add(1)
		return nil
	})
	later := r.insert("later")
	w.Wake()
	time.Sleep(100 * time.Millisecond) // a claim that does not wait would have been made by now
	if err := w.stop(t); err != nil {
		t.Fatal(err)
	}
	if n := begun.Load(); n != 1 {
		t.Fatalf("%d handlers have begun, want 1", n)
	}
	if row := r.row(later[0]); row.Status != workqueue.Ready || row.Attempts != 0 {
		t.Fatalf("the row that came later is %s after %d attempts", row.Status, row.Attempts)
	}
}

// A worker with a backlog does not wait: full claims follow each other at once.
func TestACooldownPutsOffNoBacklog(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insertMany("backlog", 100)
	r.start(workqueue.WorkerOptions{ClaimCooldown: time.Hour, ClaimLimit: 10}, ackAll)
	r.awaitStatus(workqueue.Done, ids...)
}

// Rows that come one by one share claims: however many rows come, there is one claim for each cooldown.
func TestRowsThatComeOneByOneShareClaims(t *testing.T) {
	t.Parallel()
	const cooldown = 500 * time.Millisecond
	r := newRig(t, rigOptions{})
	var claims sync.Map // by their tokens
	begun := time.Now()
	r.startIdle(workqueue.WorkerOptions{ClaimCooldown: cooldown}, func(_ context.Context, c *noteClaim) error {
		claims.Store(c.Token, true)
		return nil
	})
	var ids []uuid.UUID
	for range workqueue.DefaultClaimLimit / 2 { // a full claim would be followed by another at once
		ids = append(ids, r.insert("one by one")...)
	}
	r.awaitStatus(workqueue.Done, ids...)
	most, got := int(time.Since(begun)/cooldown)+1, 0
	claims.Range(func(_, _ any) bool { got++; return true })
	if got > most {
		t.Fatalf("%d claims, want at most %d", got, most)
	}
}
