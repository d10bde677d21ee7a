package workqueue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// want asks a flow how many rows to claim; -1 if it would wait for room.
func want(f *flow) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*claimPause)
	defer cancel()
	n, err := f.await(ctx)
	if err != nil {
		return -1
	}
	return n
}

func (f *flow) claim(wanted, got int) {
	ds := make([]*delivery, got)
	for i := range ds {
		ds[i] = &delivery{}
	}
	f.put(ds, wanted)
}

func TestFlowNeverClaimsMoreThanThereIsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(10, 4)
		if n := want(f); n != 4 {
			t.Errorf("the first claim wants %d rows, want its limit", n)
		}
		f.claim(4, 4)
		if n := want(f); n != 6 {
			t.Errorf("the second wants %d rows, want the room that is left", n)
		}
		f.claim(6, 6)
		if n := want(f); n != -1 {
			t.Errorf("a full flow wants %d rows", n)
		}
		for range 10 {
			f.take()
		}
		if n := want(f); n != -1 {
			t.Errorf("with every handler busy it wants %d rows", n)
		}
		f.finished(new(delivery), true)
		if n := want(f); n != 1 {
			t.Errorf("with one handler idle it wants %d rows", n)
		}
	})
}

func TestFlowLimitFollowsTheClaims(t *testing.T) {
	t.Parallel()
	f := newFlow(10_000, 20)
	for _, c := range []struct{ wanted, got, limit int }{
		{20, 20, 40}, {40, 40, 80}, {80, 80, 160}, {160, 10, 140},
		{140, 139, 140}, {140, 69, 138}, {138, 0, 138}, {7, 7, 138}, // full, but it asked for less
	} {
		f.claim(c.wanted, c.got)
		if f.limit != c.limit {
			t.Errorf("after %d of %d rows the limit is %d, want %d", c.got, c.wanted, f.limit, c.limit)
		}
	}
	for range 20 {
		f.claim(f.limit, f.limit)
	}
	if f.limit != maxClaimLimit {
		t.Errorf("the limit grows to %d", f.limit)
	}
	for range 40 {
		f.claim(f.limit, 1)
	}
	if f.limit != 20 {
		t.Errorf("after claims of one row the limit is %d, want the first", f.limit)
	}
}

// Fast handlers get a buffer, slow ones do not: other processes cannot work on rows that wait in this one.
func TestFlowBuffersAsMuchAsIsFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(10, 1000)
		for range 20 { // 10,000 rows a second
			f.claim(1000, 1000)
			for range 1000 {
				f.take()
				f.finished(new(delivery), true)
			}
			time.Sleep(100 * time.Millisecond)
		}
		f.claim(0, 0)
		if target := f.target(); target < 900 || target > 1100 {
			t.Errorf("room for %d rows at 10,000 rows/s, want about 100 ms of them", target)
		}
		for range 20 { // 10 rows a second
			time.Sleep(100 * time.Millisecond)
			f.finished(new(delivery), true)
			f.claim(0, 0)
		}
		if target := f.target(); target > 12 {
			t.Errorf("room for %d rows at 10 rows/s", target)
		}
	})
}

// Rows that wait behind handlers which have become slow are released: other processes may have room for them.
func TestFlowIsTrimmedWhenHandlersBecomeSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(2, 100)
		f.spawn = func(run func()) { run() }
		var released []*delivery
		release := func(d []*delivery) { released = append(released, d...) }
		for range 20 { // 10,000 rows a second
			f.claim(100, 100)
			for range 100 {
				f.take()
				f.finished(new(delivery), true)
			}
			time.Sleep(10 * time.Millisecond)
		}
		f.claim(500, 500)
		if f.trim(release); len(released) > 0 {
			t.Fatalf("%d of 500 rows are released at once, in which there is work of 50 ms", len(released))
		}
		f.take()
		f.take()
		time.Sleep(5 * time.Second)
		if f.trim(release); len(released) < 450 || len(released)+len(f.queue) != 498 {
			t.Errorf("after 5 s without an end, %d of 498 rows are released", len(released))
		}
	})
}

// One row that ends between two claims in quick succession must not raise the rate: the flow would buffer rows for half
// a second.
func TestFlowIsNotMisledByOneRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(1, 1)
		for n := range 50 { // 40 rows a second
			f.claim(1, 1)
			f.take()
			f.finished(new(delivery), true)
			time.Sleep(2 * time.Millisecond)
			f.claim(0, 0)
			if buffered := f.target() - 1; buffered > 8 {
				t.Fatalf("after %d rows, one each 25 ms, it holds %d more", n+1, buffered)
			}
			time.Sleep(23 * time.Millisecond)
		}
		if f.target() < 3 {
			t.Errorf("room for %d rows at 40 rows/s, want more than 50 ms of them", f.target())
		}
	})
}

// Every row that is put is taken once, and await never waits while there is room to fill.
func TestFlowUnderLoad(t *testing.T) {
	t.Parallel()
	const total, concurrency = 20_000, 8
	f := newFlow(concurrency, 20)
	var handlers sync.WaitGroup
	taken := make([]int, concurrency)
	for i := range concurrency {
		handlers.Go(func() {
			for {
				if _, ok := f.take(); !ok {
					return
				}
				taken[i]++
				f.finished(new(delivery), true)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for left := total; left > 0; {
		n, err := f.await(ctx)
		if err != nil {
			t.Fatalf("await: %v with %d rows left, %d busy, %d waiting", err, left, f.busy(), len(f.queue))
		}
		n = min(n, left)
		f.claim(n, n)
		left -= n
	}
	if !pgtest.Await(time.Minute, func() bool { return len(f.drainIfIdle()) == 0 }) {
		t.Fatal("rows are not taken")
	}
	f.close()
	handlers.Wait()
	sum := len(f.drain())
	for _, n := range taken {
		sum += n
	}
	if sum != total {
		t.Errorf("%d rows taken of %d", sum, total)
	}
}

// drainIfIdle returns the deliveries that wait.
func (f *flow) drainIfIdle() []*delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queue
}

func TestFlowEndsItsWaits(t *testing.T) {
	t.Parallel()
	f := newFlow(1, 1)
	f.claim(2, 2)
	f.take()
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	waits.Go(func() {
		if n, err := f.await(ctx); err == nil {
			t.Errorf("await returned %d rows of room in a full flow", n)
		}
	})
	cancel()
	waits.Wait()
	f.close()
	if _, ok := f.take(); ok {
		t.Error("a closed flow gave out a delivery")
	}
	if left := f.drain(); len(left) != 1 || f.busy() != 2 {
		t.Errorf("%d deliveries left, %d count as busy", len(left), f.busy())
	}
}
