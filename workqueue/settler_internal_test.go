package workqueue

import (
	"testing"
	"testing/synctest"
	"time"
)

// A settler that lingers for company gets it: the other one leaves it what ends meanwhile.
func TestOneSettlerCollectsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{flow: newFlow(10, 10), options: WorkerOptions{SettleLinger: time.Second}}
		w.flow.running = 1 // a handler is at work
		s := newSettler(w)
		batches := make(chan int, settlerCount)
		s.pending <- pendingSettle{}
		for range settlerCount {
			go func() { batches <- len(s.nextBatch(nil)) }()
			synctest.Wait()
		}
		for range 10 {
			s.pending <- pendingSettle{}
		}
		if n := <-batches; n != 11 {
			t.Errorf("the first batch has %d outcomes, want all 11", n)
		}
		s.stop()
		if n := <-batches; n != 0 {
			t.Errorf("after the last outcome there is a batch of %d", n)
		}
	})
}

// A batch that has company enough lingers no longer.
func TestALargeBatchLingersNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{flow: newFlow(10, 10), options: WorkerOptions{SettleLinger: time.Hour}}
		w.flow.running = 1
		s := newSettler(w)
		batch := make(chan int, 1)
		s.pending <- pendingSettle{}
		start := time.Now()
		go func() { batch <- len(s.nextBatch(nil)) }()
		synctest.Wait()
		for range lingerBatch {
			s.pending <- pendingSettle{}
		}
		if n, took := <-batch, time.Since(start); n != lingerBatch+1 || took > time.Hour/lingerParts {
			t.Errorf("a batch of %d after %v, want all of them at the next look", n, took)
		}
	})
}
