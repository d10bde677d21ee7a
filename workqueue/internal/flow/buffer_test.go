package flow

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

type row struct{ place Place }

func (r *row) Place() *Place { return &r.place }

// newBuffer makes a buffer whose rows are not released.
func newBuffer(concurrency, claimLimit int) *Buffer[*row] {
	return New(Options{Concurrency: concurrency, ClaimLimit: claimLimit}, func([]*row) {})
}

// want asks a buffer how many rows to claim; -1 if it would wait for room.
func want(b *Buffer[*row]) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*claimPause)
	defer cancel()
	n, err := b.Await(ctx)
	if err != nil {
		return -1
	}
	return n
}

func rowsOf(topic string, n int) []*row {
	rows := make([]*row, n)
	for i := range rows {
		rows[i] = &row{Place{Topic: topic}}
	}
	return rows
}

func claim(b *Buffer[*row], wanted, got int) {
	b.Add(rowsOf("", got), wanted)
}

func TestABufferNeverClaimsMoreThanThereIsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(10, 4)
		if n := want(b); n != 4 {
			t.Errorf("the first claim wants %d rows, want its limit", n)
		}
		claim(b, 4, 4)
		if n := want(b); n != 6 {
			t.Errorf("the second wants %d rows, want the room that is left", n)
		}
		claim(b, 6, 6)
		if n := want(b); n != -1 {
			t.Errorf("a full buffer wants %d rows", n)
		}
		for range 10 {
			b.Take()
		}
		if n := want(b); n != -1 {
			t.Errorf("with every handler busy it wants %d rows", n)
		}
		b.Finished(new(row), true)
		if n := want(b); n != 1 {
			t.Errorf("with one handler idle it wants %d rows", n)
		}
	})
}

func TestTheLimitFollowsTheClaims(t *testing.T) {
	t.Parallel()
	b := newBuffer(10_000, 20)
	for _, c := range []struct{ wanted, got, limit int }{
		{20, 20, 40}, {40, 40, 80}, {80, 80, 160}, {160, 10, 140},
		{140, 139, 140}, {140, 69, 138}, {138, 0, 138}, {7, 7, 138}, // full, but it asked for less
	} {
		claim(b, c.wanted, c.got)
		if b.limit != c.limit {
			t.Errorf("after %d of %d rows the limit is %d, want %d", c.got, c.wanted, b.limit, c.limit)
		}
	}
	for range 20 {
		claim(b, b.limit, b.limit)
	}
	if b.limit != maxClaimLimit {
		t.Errorf("the limit grows to %d", b.limit)
	}
	for range 40 {
		claim(b, b.limit, 1)
	}
	if b.limit != 20 {
		t.Errorf("after claims of one row the limit is %d, want the first", b.limit)
	}
}

// Fast handlers get a buffer, slow ones do not: other processes cannot work on rows that wait in this one.
func TestABufferHoldsAsMuchAsIsFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(10, 1000)
		for range 20 { // 10,000 rows a second
			claim(b, 1000, 1000)
			for range 1000 {
				b.Take()
				b.Finished(new(row), true)
			}
			time.Sleep(100 * time.Millisecond)
		}
		claim(b, 0, 0)
		if target := b.target(); target < 900 || target > 1100 {
			t.Errorf("room for %d rows at 10,000 rows/s, want about 100 ms of them", target)
		}
		for range 20 { // 10 rows a second
			time.Sleep(100 * time.Millisecond)
			b.Finished(new(row), true)
			claim(b, 0, 0)
		}
		if target := b.target(); target > 12 {
			t.Errorf("room for %d rows at 10 rows/s", target)
		}
	})
}

// Rows that wait behind handlers which have become slow are released: other processes may have room for them.
func TestABufferIsTrimmedWhenHandlersBecomeSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var released []*row
		b := New(Options{Concurrency: 2, ClaimLimit: 100}, func(rows []*row) { released = append(released, rows...) })
		b.spawn = func(run func()) { run() }
		for range 20 { // 10,000 rows a second
			claim(b, 100, 100)
			for range 100 {
				b.Take()
				b.Finished(new(row), true)
			}
			time.Sleep(10 * time.Millisecond)
		}
		claim(b, 500, 500)
		if b.Trim(); len(released) > 0 {
			t.Fatalf("%d of 500 rows are released at once, in which there is work of 50 ms", len(released))
		}
		b.Take()
		b.Take()
		time.Sleep(5 * time.Second)
		if b.Trim(); len(released) < 450 || len(released)+len(b.queue) != 498 {
			t.Errorf("after 5 s without an end, %d of 498 rows are released", len(released))
		}
	})
}

// One row that ends between two claims in quick succession must not raise the rate: rows for half a second would wait.
func TestTheRateIsNotMisledByOneRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(1, 1)
		for n := range 50 { // 40 rows a second
			claim(b, 1, 1)
			b.Take()
			b.Finished(new(row), true)
			time.Sleep(2 * time.Millisecond)
			claim(b, 0, 0)
			if buffered := b.target() - 1; buffered > 8 {
				t.Fatalf("after %d rows, one each 25 ms, it holds %d more", n+1, buffered)
			}
			time.Sleep(23 * time.Millisecond)
		}
		if b.target() < 3 {
			t.Errorf("room for %d rows at 40 rows/s, want more than 50 ms of them", b.target())
		}
	})
}

// Every row that is put is taken once, and await never waits while there is room to fill.
func TestABufferUnderLoad(t *testing.T) {
	t.Parallel()
	const total, concurrency = 20_000, 8
	b := newBuffer(concurrency, 20)
	var handlers sync.WaitGroup
	taken := make([]int, concurrency)
	for i := range concurrency {
		handlers.Go(func() {
			for {
				if _, _, ok := b.Take(); !ok {
					return
				}
				taken[i]++
				b.Finished(new(row), true)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	for left := total; left > 0; {
		n, err := b.Await(ctx)
		if err != nil {
			t.Fatalf("await: %v with %d rows left, %d busy, %d waiting", err, left, b.running, len(b.queue))
		}
		n = min(n, left)
		claim(b, n, n)
		left -= n
	}
	if !pgtest.Await(pgtest.Patience, func() bool { return b.waiting() == 0 }) {
		t.Fatal("rows are not taken")
	}
	b.Close()
	handlers.Wait()
	sum := len(b.Drain())
	for _, n := range taken {
		sum += n
	}
	if sum != total {
		t.Errorf("%d rows taken of %d", sum, total)
	}
}

// waiting is how many rows wait.
func (b *Buffer[R]) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

func TestABufferEndsItsWaits(t *testing.T) {
	t.Parallel()
	b := newBuffer(1, 1)
	claim(b, 2, 2)
	b.Take()
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	waits.Go(func() {
		if n, err := b.Await(ctx); err == nil {
			t.Errorf("await returned %d rows of room in a full buffer", n)
		}
	})
	cancel()
	waits.Wait()
	b.Close()
	if _, _, ok := b.Take(); ok {
		t.Error("a closed buffer gave out a row")
	}
	if left := b.Drain(); len(left) != 1 || b.running != 2 {
		t.Errorf("%d rows left, %d count as busy", len(left), b.running)
	}
}
