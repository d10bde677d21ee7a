package workqueue

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
)

const (
	// MinLease is the shortest lease: below it a stop-the-world pause looks like a crash.
	MinLease = time.Second
	// MaxLease is the longest: a lease is how long a crash goes unnoticed.
	MaxLease = 24 * time.Hour
	// MaxBatch bounds the rows of one claim, of one settle and of one INSERT: the arrays and locks of a statement.
	MaxBatch = 10_000
)

// MaxReturns is how many leases a row may lose together with other rows of its process without an attempt, see
// [Queue.ReapExpired].
const MaxReturns = 5

// MaxSkipped bounds how many rows that are in the way one run of maintenance skips. It ends that kind of work then, and
// rows behind them wait.
const MaxSkipped = 5000

// Bounds of the time between two sweeps, and the share of its time that a claimer spends on them.
const (
	minSweepInterval = 10 * time.Millisecond
	maxSweepInterval = time.Minute
	sweepShare       = 40 // one part in 40

	// sweepPause is how long a claimer rests at least if there is nothing to do but sweep. Otherwise, after a row that
	// came alone, the sweep would cost as much again as its claim.
	sweepPause = 250 * time.Millisecond
)

// fairEvery is how often a claim begins with a less urgent lane, each of them in its turn: under an endless load of
// urgent rows, the other lanes share one claim in eight.
const fairEvery = 8

// maxDelay bounds every delay that a caller may name: ten years, far from overflow in Go and in SQL.
const maxDelay = 10 * 365 * 24 * time.Hour

// maxAttemptsLimit is far more than anybody tries and far from overflowing anything.
const maxAttemptsLimit = 1_000_000

// maxLostLimit is how far the reaper counts the leases that a row has lost.
const maxLostLimit = 9999

// maxVanished is how often in succession the holder of a row's unique values may vanish.
const maxVanished = 10

// Bounds of a due time. A value outside them is a unit mistake, such as milliseconds taken for seconds.
var (
	minDue = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	maxDue = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

func checkLease(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return invalid("lease", "is %v, it must be between %v and %v", d, MinLease, MaxLease)
	}
	return nil
}

func checkLimit(n int) error {
	if n < 1 || n > MaxBatch {
		return invalid("limit", "is %d, it must be between 1 and %d", n, MaxBatch)
	}
	return nil
}

func checkBatch(ids []uuid.UUID) error {
	if len(ids) > MaxBatch {
		return invalid("ids", "has %d of them, at most %d fit one call", len(ids), MaxBatch)
	}
	return nil
}

func checkDelay(d time.Duration) error {
	if d < 0 || d > maxDelay {
		return invalid("delay", "is %v, it must be between 0 and %v", d, maxDelay)
	}
	return nil
}

func checkDue(t time.Time) error {
	if !t.IsZero() && (t.Before(minDue) || t.After(maxDue)) {
		return invalid("due time", "is %s, it must be between %s and %s",
			t.Format(time.RFC3339), minDue.Format(time.DateOnly), maxDue.Format(time.DateOnly))
	}
	return nil
}

func checkText(field, s string) error { return refuse(field, postgres.Text(s)) }

func checkIdentifier(kind, name string) error { return refuse(kind, postgres.Identifier(name)) }

// foldLimit bounds the notes of one call of a fold, and so how long it holds locks. If the notes concern few keys, a
// fold may apply ten times as many.
const foldLimit = 1000
