package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// A settle lingers so that others can share its transaction. If no handler is at work, it does not linger.
func TestNobodyLingersAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.start(workqueue.WorkerOptions{SettleLinger: time.Hour}, func(context.Context, *noteClaim) error { return nil })
	for range 3 {
		r.awaitStatus(workqueue.Done, r.insert("alone")...)
	}
}
