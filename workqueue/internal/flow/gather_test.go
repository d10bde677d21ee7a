package flow

import (
	"testing"
	"testing/synctest"
	"time"
)

// ofTopic is a batch of the rows of a topic.
func ofTopic(topic string, limit int, linger time.Duration) Batch[*row] {
	return Batch[*row]{Limit: limit, Linger: linger,
		Accept: func(r *row) (joins, full bool) { return r.place.Topic == topic, false }}
}

// begin takes a row, which begins a batch.
func begin(b *Buffer[*row], batch Batch[*row]) (first *row, g *Gathering[*row]) {
	b.SetBatches(b.each, func(*row) (Batch[*row], bool) { return batch, true })
	first, g, _ = b.Take()
	return first, g
}

// A handler for batches takes what is there, and leaves the others in their order.
func TestABatchTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	b := newBuffer(4, 10)
	b.queue = append(rowsOf("a", 2), append(rowsOf("b", 1), rowsOf("a", 3)...)...)
	last := b.queue[5]
	first, batch := begin(b, ofTopic("a", 4, 0))
	rows, begins := b.Gather(batch)
	if !begins || len(rows) != 4 || rows[0] != first || len(b.queue) != 2 || b.queue[0].place.Topic != "b" ||
		b.queue[1] != last {
		t.Errorf("gathered %d, begins: %v, %d are left", len(rows), begins, len(b.queue))
	}
	if running, _ := b.Load(); running != 1 {
		t.Errorf("a batch has %d places", running)
	}
	b.FinishedBatch(first, len(rows), true)
	if running, _ := b.Load(); running != 0 || b.done != 4 {
		t.Errorf("%d places are taken after %d rows", running, b.done)
	}
}

// While a batch lingers there is room for its rows, and they come to it and to no idle handler.
func TestALingeringBatchGetsWhatComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(1, 10)
		claim(b, 10, 1)
		_, batch := begin(b, ofTopic("", 5, time.Second))
		var rows []*row
		go func() { rows, _ = b.Gather(batch) }()
		synctest.Wait()
		if n := want(b); n != 4 {
			t.Errorf("with a batch of five that has one it wants %d rows", n)
		}
		claim(b, 4, 3)
		synctest.Wait()
		if n := want(b); n != 1 || rows != nil {
			t.Errorf("with one that has four it wants %d rows, and began with %d", n, len(rows))
		}
		claim(b, 1, 1)
		synctest.Wait()
		if len(rows) != 5 || len(b.queue) != 0 {
			t.Errorf("a full batch begins with %d rows", len(rows))
		}
		if n := want(b); n != -1 {
			t.Errorf("while it runs the buffer wants %d rows", n)
		}
	})
}

// Rows that come together are one batch, however many handlers are idle: none takes a row that joins a batch which
// another has begun.
func TestIdleHandlersDoNotDivideABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(4, 10)
		b.queue = append(rowsOf("a", 1), append(rowsOf("b", 1), rowsOf("a", 1)...)...)
		_, batch := begin(b, ofTopic("a", 2, time.Hour))
		if len(b.queue) != 1 || b.queue[0].place.Topic != "b" {
			t.Fatalf("%d rows are left to the others", len(b.queue))
		}
		if rows, begins := b.Gather(batch); !begins || len(rows) != 2 {
			t.Errorf("%d rows begin: %v", len(rows), begins)
		}
	})
}

func TestABatchLingersForSoLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(1, 10)
		claim(b, 10, 1)
		_, batch := begin(b, ofTopic("", 5, time.Second))
		start := time.Now()
		rows, begins := b.Gather(batch)
		if took := time.Since(start); took != time.Second || len(rows) != 1 || !begins {
			t.Errorf("%d rows begin after %v: %v", len(rows), took, begins)
		}
	})
}

// A buffer that closes gives back what a batch has gathered.
func TestAClosedBufferEndsGathering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(1, 10)
		claim(b, 10, 3)
		_, batch := begin(b, ofTopic("", 5, time.Hour))
		go func() {
			time.Sleep(time.Millisecond)
			b.Close()
		}()
		rows, begins := b.Gather(batch)
		if running, _ := b.Load(); begins || len(rows) != 3 || running != 3 {
			t.Errorf("%d rows, %d of them count as running, begin: %v", len(rows), running, begins)
		}
	})
}

// A topic whose rows are set aside has room for as many of them as its batches take.
func TestATopicThatIsStuckHasRoomForBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := make(chan []*row, 1)
		b := New(Options{Concurrency: 4, ClaimLimit: 100}, func(rows []*row) {
			if len(rows) > 0 {
				released <- rows
			}
		})
		b.SetBatches(10, nil)
		b.spawn = func(run func()) { go run() }
		b.Add(rowsOf("slow", 40), 40)
		var batches [2][]*row
		for i := range batches {
			_, batch := begin(b, ofTopic("slow", 10, 0))
			batches[i], _ = b.Gather(batch)
		}
		if rest := takeAll(b); len(rest) != 0 {
			t.Fatalf("%d more batches start, want half of the places for the only topic", len(rest))
		}
		time.Sleep(stallTime + time.Millisecond)
		back := <-released
		if len(back) != 20 {
			t.Errorf("%d rows are put back, want the 20 that wait", len(back))
		}
		for _, r := range back {
			b.Finished(r, false)
		}
		if rooms := b.Stuck(); rooms["slow"] != 0 {
			t.Errorf("a topic that hangs has room for %d rows", rooms["slow"])
		}
		for _, rows := range batches {
			b.FinishedBatch(rows[0], len(rows), true)
		}
		if rooms := b.Stuck(); rooms["slow"] != 40 {
			t.Errorf("a topic that succeeded has room for %d rows, want four batches of 10", rooms["slow"])
		}
		b.Add(rowsOf("slow", 3), 40)
		_, batch := begin(b, ofTopic("slow", 10, time.Second))
		go b.Gather(batch)
		synctest.Wait()
		if rooms := b.Stuck(); rooms["slow"] != 37 {
			t.Errorf("with 3 rows in a batch that lingers it has room for %d, want 37", rooms["slow"])
		}
		time.Sleep(time.Second)
	})
}

// Handlers that take several rows at once have room for as many.
func TestABufferHasRoomForBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(2, 100)
		b.SetBatches(10, nil)
		if n := want(b); n != 20 {
			t.Errorf("two handlers of ten rows want %d", n)
		}
		claim(b, 20, 10)
		_, batch := begin(b, ofTopic("", 10, 0))
		b.Gather(batch)
		if n := want(b); n != 10 {
			t.Errorf("the other wants %d", n)
		}
	})
}
