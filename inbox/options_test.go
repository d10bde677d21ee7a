package inbox_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

func TestOpenRefusesBadOptions(t *testing.T) {
	t.Parallel()
	slow := workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour}
	for want, o := range map[string]inbox.Options{
		"dedup window is not set, and has no default: set it to the longest time":                               {},
		"dedup window is -1ns, it must be positive":                                                             {DedupWindow: -1},
		"dedup window is 87600h0m0.000000001s, it must be positive and at most 87600h0m0s":                      {DedupWindow: 10*365*day + 1},
		"dedup window is 1m0s, shorter than the retry horizon of 13m31s (10 attempts, each with a lease of 30s": {DedupWindow: time.Minute},
		"dedup window is 9h0m0s, shorter than the retry horizon of 9h5m0s":                                      {DedupWindow: 9 * time.Hour, Retry: slow},
		"retention is -1ns, it cannot be negative":                                                              {DedupWindow: day, Retention: -1},
		"retention is 25h0m0s, longer than the dedup window of 24h0m0s":                                         {DedupWindow: day, Retention: 25 * time.Hour},
		"failed retention is 23h0m0s, shorter than the dedup window of 24h0m0s":                                 {DedupWindow: day, FailedRetention: 23 * time.Hour},
		"failed retention is -1ns": {DedupWindow: day, FailedRetention: -1},
		"max payload is -1 bytes":  {DedupWindow: day, MaxPayload: -1},
		"between 1 and 268435456":  {DedupWindow: day, MaxPayload: 256<<20 + 1},
		"max attempts is -1":       {DedupWindow: day, MaxAttempts: -1},
		"retry has Growth 9":       {DedupWindow: day, Retry: workqueue.Retry{Growth: 9}},
		`schema "Robert'); --"`:    {DedupWindow: day, Schema: "Robert'); --"},
		"retry horizon of 2562047h47m": {DedupWindow: day, MaxAttempts: 1_000_000,
			Retry: workqueue.Retry{Growth: workqueue.Constant, Base: 3650 * day, Cap: 3650 * day}},
	} {
		_, err := inbox.Open(o)
		expectInvalid(t, err, want)
	}
}

func TestRetryHorizon(t *testing.T) {
	t.Parallel()
	retry := workqueue.Retry{Growth: workqueue.Exponential, Base: time.Second, Cap: 10 * time.Second, Jitter: 0.5}
	for _, c := range []struct {
		attempts int
		want     time.Duration
	}{
		{1, time.Minute},
		{2, 2*time.Minute + time.Second},
		{6, 6*time.Minute + (1+2+4+8+10)*time.Second},
	} {
		if got := inbox.RetryHorizon(retry, c.attempts, time.Minute); got != c.want {
			t.Errorf("%d attempts: got %v, want %v", c.attempts, got, c.want)
		}
	}
	century := workqueue.Retry{Growth: workqueue.Constant, Base: 3650 * day, Cap: 3650 * day}
	if got := inbox.RetryHorizon(century, 1000, time.Minute); got != math.MaxInt64 {
		t.Errorf("got %v, want the longest there is", got)
	}
}

func TestTheWindowIsHeldAgainstTheWorkersLease(t *testing.T) {
	t.Parallel()
	f := newInbox(t, func(o *inbox.Options) { o.DedupWindow = day })
	o := inbox.WorkerOptions{Consumer: "billing", WorkerOptions: workqueue.WorkerOptions{Lease: 3 * time.Hour}}
	_, err := inbox.NewWorker(f.Pool, f.box, o)
	expectInvalid(t, err, "dedup window is 24h0m0s, shorter than the retry horizon of 39h0m0s (10 attempts, each "+
		"with a lease of 3h0m0s")
}

// The default number of attempts fits the window, so a window that covers MinAttempts is enough, whatever lease the
// workers have.
func TestTheDefaultAttemptsFitTheWindow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool
	constant := workqueue.Retry{Growth: workqueue.Constant, Base: time.Minute}
	for name, c := range map[string]struct {
		o     inbox.Options
		lease time.Duration
		want  int
	}{
		"the least":       {inbox.Options{DedupWindow: 811 * time.Second}, 30 * time.Second, inbox.MinAttempts},
		"an hour":         {inbox.Options{DedupWindow: time.Hour}, 5 * time.Minute, 13},
		"a day":           {inbox.Options{DedupWindow: day}, 2 * time.Hour, 102},
		"a month":         {inbox.Options{DedupWindow: 30 * day}, time.Hour, inbox.DefaultMaxAttempts},
		"its own backoff": {inbox.Options{DedupWindow: time.Hour, Retry: constant}, 5 * time.Minute, 40},
		"its own attempts": {inbox.Options{DedupWindow: 30 * day, MaxAttempts: 2000,
			Retry: workqueue.Retry{Growth: workqueue.Constant, Base: time.Second}}, time.Minute, 2000},
	} {
		box, err := inbox.Open(c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		spec := box.Table().Spec()
		if spec.MaxAttempts != c.want {
			t.Errorf("%s: %d attempts, want %d", name, spec.MaxAttempts, c.want)
		}
		horizon := func(n int) time.Duration { return inbox.RetryHorizon(spec.Retry, n, workqueue.DefaultLease) }
		if n := spec.MaxAttempts; horizon(n) > c.o.DedupWindow ||
			c.o.MaxAttempts == 0 && n < inbox.DefaultMaxAttempts && horizon(n+1) <= c.o.DedupWindow {
			t.Errorf("%s: %d attempts have a horizon of %v in a window of %v", name, n, horizon(n), c.o.DedupWindow)
		}
		if _, err := inbox.NewWorker(pool, box, inbox.WorkerOptions{Consumer: "c",
			WorkerOptions: workqueue.WorkerOptions{Lease: c.lease}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDefaultsAreThoseOfTheMigration(t *testing.T) {
	t.Parallel()
	box, err := inbox.Open(inbox.Options{DedupWindow: 30 * day})
	if err != nil {
		t.Fatal(err)
	}
	gotUp, gotDown, _ := box.DDL()
	if !strings.Contains(gotUp, "interval '720 hours'") {
		t.Error("the procedure of an inbox with a window of 30 days purges by another one")
	}
	gotUp = strings.ReplaceAll(gotUp, "interval '720 hours'", "interval '87600 hours'") // the migration knows no window
	up, down, err := inbox.DDL("")
	if err != nil || gotUp != up || gotDown != down {
		t.Errorf("an inbox without options has other DDL than the migration (%v)", err)
	}
	if !strings.Contains(up, "interval '24 hours'") {
		t.Error("the default retention is not in the DDL")
	}
}

// Programs that do not know the window must not delete keys that are still needed.
func TestTheSpecAloneDeletesNoTombstones(t *testing.T) {
	t.Parallel()
	if got := inbox.Spec("").Retention; got != 10*365*day {
		t.Errorf("keeps %v", got)
	}
	box, err := inbox.Open(inbox.Options{DedupWindow: 30 * day})
	if err != nil || box.Table().Spec().Retention != 30*day {
		t.Errorf("the table of an inbox keeps %v, want its window (%v)", box.Table().Spec().Retention, err)
	}
}

func TestDDLUpAndDownAndUp(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	up, down, err := inbox.DDL(f.Schema)
	if err != nil {
		t.Fatal(err)
	}
	f.exec(down)
	if n := f.count("SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace($1)", f.Schema); n != 0 {
		t.Errorf("%d functions are left", n)
	}
	f.exec(up)
	f.process(key("1"))
	if _, _, err := inbox.DDL("Robert'); --"); err == nil {
		t.Error("took a bad schema")
	}
	if n := f.count("SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace($1) AND (proacl IS NULL OR "+
		"proacl::text ~ '[{,]=X')", f.Schema); n != 0 {
		t.Errorf("%d functions may be called by everybody", n)
	}
}
