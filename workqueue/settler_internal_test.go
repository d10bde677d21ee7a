package workqueue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/flow"
)

// engineAtWork is an engine with a row in the hands of a handler.
func engineAtWork(linger time.Duration) *engine {
	e := &engine{consumer: consumer{handling: handling{SettleLinger: linger}}}
	e.flow = flow.New(flow.Options{Concurrency: 10, ClaimLimit: 10}, func([]*delivery) {})
	e.flow.Add([]*delivery{{claimedRow: new(claimedRow), engine: e}}, 1)
	e.flow.Take()
	return e
}

// A settler that lingers gets the outcomes that come meanwhile: the other settler leaves them to it.
func TestOneSettlerCollectsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSettler(engineAtWork(time.Second))
		batches := make(chan int, settlerCount)
		s.pending <- &settlement{}
		for range settlerCount {
			go func() { batches <- len(s.nextBatch(nil)) }()
			synctest.Wait()
		}
		for range 10 {
			s.pending <- &settlement{}
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

// A batch that is large enough lingers no longer.
func TestALargeBatchLingersNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSettler(engineAtWork(time.Hour))
		batch := make(chan int, 1)
		s.pending <- &settlement{}
		start := time.Now()
		go func() { batch <- len(s.nextBatch(nil)) }()
		synctest.Wait()
		for range lingerBatch {
			s.pending <- &settlement{}
		}
		if n, took := <-batch, time.Since(start); n != lingerBatch+1 || took > time.Hour/lingerParts {
			t.Errorf("a batch of %d after %v, want all of them at the next look", n, took)
		}
	})
}

// Settles that write notes are made in shares of the rows in flight. Other settles take all outcomes that there are.
func TestASettleTakesAShareOfWhatWritesNotes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                           string
		inFlight, noted, others, batch int
	}{
		{"few", 60, 50, 10, 60},
		{"enough for one settle", 400, 400, 0, lingerBatch},
		{"many", 2000, 900, 0, 2000 / settleShares},
		{"none", 2000, 0, 900, 900},
		{"more than a batch", 8000, 3000, 0, settleBatch},
		{"behind others", 400, 400, 300, 300 + lingerBatch},
	} {
		e := new(engine)
		s := newSettler(e)
		rows := make([]*delivery, c.inFlight)
		for i := range rows {
			rows[i] = &delivery{claimedRow: &claimedRow{Row: Row{ID: uuid.New()}}}
		}
		e.inFlight.add(rows)
		for range c.others {
			s.pending <- &settlement{}
		}
		for range c.noted {
			s.pending <- &settlement{folds: true}
		}
		if n := len(s.nextBatch(nil)); n != c.batch {
			t.Errorf("%s: a batch of %d, want %d", c.name, n, c.batch)
		}
	}
}
