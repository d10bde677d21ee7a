package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// pointerError is for a classic mistake: its method needs a receiver, and it is returned as a nil pointer.
type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

// hostileError panics in every method that errors.Is and errors.As call.
type hostileError struct{ text string }

func (e *hostileError) Error() string { return e.text }
func (e *hostileError) Unwrap() error { panic("unwrapped: " + e.text) }
func (e *hostileError) Is(error) bool { panic("compared: " + e.text) }
func (e *hostileError) As(any) bool   { panic("converted: " + e.text) }

// silentError panics when its methods are called.
type silentError struct{}

func (silentError) Error() string { panic("not telling") }

// rowWant is what an outcome makes of a row. Its error is a part of last_error.
type rowWant struct {
	status    workqueue.Status
	attempts  int
	due       time.Duration // about
	err       string
	cancelled bool
}

func TestWorkerOutcomes(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	ready := func(attempts int, due time.Duration, err string) rowWant {
		return rowWant{workqueue.Ready, attempts, due, err, false}
	}
	failed := func(err string) rowWant { return rowWant{workqueue.Failed, 1, 0, err, false} }
	cases := map[string]struct {
		handle func() error
		want   rowWant
	}{
		"nil":       {func() error { return nil }, rowWant{status: workqueue.Done, attempts: 1}},
		"error":     {func() error { return boom }, ready(1, time.Hour, "boom")},
		"permanent": {func() error { return workqueue.Permanent(boom) }, failed("boom")},
		"permanent wrapped": {func() error { return fmt.Errorf("charging: %w", workqueue.Permanent(boom)) },
			failed("boom")},
		"permanent without": {func() error { return workqueue.Permanent(nil) }, failed("failed without an error")},
		"permanent in a join": {func() error { return errors.Join(boom, workqueue.Permanent(errors.New("bang"))) },
			failed("bang")},
		"snooze": {func() error { return workqueue.Snooze(2 * time.Hour) }, ready(0, 2*time.Hour, "")},
		"snooze wrapped": {func() error { return fmt.Errorf("later: %w", workqueue.Snooze(2*time.Hour)) },
			ready(0, 2*time.Hour, "")},
		"snooze for": {func() error { return workqueue.SnoozeFor(2*time.Hour, boom) },
			ready(0, 2*time.Hour, "boom since 20")},
		"retry after": {func() error { return workqueue.RetryAfter(3*time.Hour, boom) },
			ready(1, 3*time.Hour, "boom")},
		"retry after an age": {func() error { return workqueue.RetryAfter(1<<63-1, boom) },
			ready(1, 10*365*24*time.Hour, "boom")},
		"retry by policy": {func() error { return workqueue.RetryByPolicy(boom) }, ready(1, time.Hour, "boom")},
		"retry without a cause": {func() error { return workqueue.RetryByPolicy(nil) },
			ready(1, time.Hour, "without an error")},
		"cancelled": {func() error { return workqueue.Cancelled("nobody wants it") },
			rowWant{workqueue.Failed, 1, 0, "cancelled: nobody wants it", true}},
		"panic":               {func() error { panic("kaboom") }, ready(1, time.Hour, "panic: kaboom")},
		"panic with an error": {func() error { panic(boom) }, ready(1, time.Hour, "panic: boom")},
		"panic with nil":      {func() error { panic(nil) }, ready(1, time.Hour, "panic: ")},
		"panic has its stack": {func() error { panicDeepDown(); return nil }, ready(1, time.Hour, "panicDeepDown")},
		"goexit":              {func() error { runtime.Goexit(); return nil }, ready(1, time.Hour, "goroutine")},
		"NUL":                 {func() error { return errors.New("a\x00b") }, ready(1, time.Hour, "ab")},
		"invalid UTF-8":       {func() error { return errors.New("a\xff\xfeb") }, ready(1, time.Hour, "a\uFFFDb")},
		"nothing but NUL":     {func() error { return errors.New("\x00") }, ready(1, time.Hour, "")},
		"huge": {func() error { return errors.New(strings.Repeat("é", 1<<20)) },
			ready(1, time.Hour, "ééé")},
		"nil pointer as error":  {func() error { var e *pointerError; return e }, ready(1, time.Hour, "")},
		"nil outcome as error":  {func() error { var o *workqueue.Outcome; return o }, ready(1, time.Hour, "")},
		"permanent nil pointer": {func() error { var e *pointerError; return workqueue.Permanent(e) }, failed("")},
		"nil pointer unwrapped": {func() error { var e *hostileError; return e },
			ready(1, time.Hour, "*workqueue_test.hostileError")},
		"nil pointer says so": {func() error { var e *pointerError; return e },
			ready(1, time.Hour, "nil pointer of type *workqueue_test.pointerError")},
		"hostile error": {func() error { return &hostileError{"boom"} }, ready(1, time.Hour, "boom")},
		"hostile error wrapped": {func() error { return fmt.Errorf("charging: %w", &hostileError{"boom"}) },
			ready(1, time.Hour, "charging: boom")},
		"permanent hostile":      {func() error { return workqueue.Permanent(&hostileError{"boom"}) }, failed("boom")},
		"silent error":           {func() error { return silentError{} }, ready(1, time.Hour, "not telling")},
		"panic with a bad error": {func() error { var e *pointerError; panic(e) }, ready(1, time.Hour, "panic")},
	}
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	r.start(workqueue.WorkerOptions{Concurrency: 3}, func(_ context.Context, c *noteClaim) error {
		return cases[c.Body.Topic].handle()
	})
	ids := map[string]uuid.UUID{}
	for name := range cases {
		ids[name] = r.insert(name)[0]
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got noteRow
			r.eventually(name, func() bool {
				got = r.row(ids[name])
				return got.Status != workqueue.InProgress && (got.Status != workqueue.Ready || got.DueIn > time.Minute)
			})
			c.want.check(t, got)
		})
	}
}

func panicDeepDown() { panic("deep down") }

func (w rowWant) check(t *testing.T, got noteRow) {
	t.Helper()
	if got.Status != w.status || got.Attempts != w.attempts {
		t.Errorf("%v after %d attempts, want %v after %d; error %q", got.Status, got.Attempts, w.status, w.attempts,
			got.Error)
	}
	if !strings.Contains(got.Error, w.err) || len(got.Error) > 9<<10 || !utf8.ValidString(got.Error) {
		t.Errorf("last error is %.300q (%d bytes), want it to contain %q", got.Error, len(got.Error), w.err)
	}
	if got.Cancelled != w.cancelled || got.Completed != (w.status >= workqueue.Done) {
		t.Errorf("cancelled %v, completed %v", got.Cancelled, got.Completed)
	}
	if w.due > 0 && (got.DueIn > w.due || got.DueIn < w.due-10*time.Minute) {
		t.Errorf("due in %v, want about %v", got.DueIn, w.due)
	}
}

func TestWorkerRetriesUntilAttemptsAreUsedUp(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, fail := range map[string]func() error{
		"error":           func() error { return boom },
		"retry now":       func() error { return workqueue.RetryNow(boom) },
		"retry by policy": func() error { return workqueue.RetryByPolicy(boom) },
		"negative delay":  func() error { return workqueue.RetryAfter(-time.Hour, boom) },
		"panic":           func() error { panic("boom") },
		"goexit":          func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.MaxAttempts = 3 }})
			attempts := make(chan int, 10)
			r.start(workqueue.WorkerOptions{}, func(_ context.Context, c *noteClaim) error {
				attempts <- c.Attempt
				if c.MaxAttempts != 3 {
					t.Errorf("max attempts %d, want 3", c.MaxAttempts)
				}
				return fail()
			})
			id := r.insert("doomed")[0]
			r.awaitStatus(workqueue.Failed, id)
			for want := 1; want <= 3; want++ {
				if got := receive(t, attempts, "an attempt"); got != want {
					t.Errorf("attempt %d, want %d", got, want)
				}
			}
			if row := r.row(id); row.Attempts != 3 || row.Error == "" || len(attempts) != 0 {
				t.Errorf("after the last attempt: %+v, %d more attempts", row, len(attempts))
			}
		})
	}
}

// A snooze gives its attempt back, even the last one.
func TestWorkerSnoozeNeverUsesUpAttempts(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.MaxAttempts = 1 }})
	runs := 0
	r.start(workqueue.WorkerOptions{Concurrency: 1}, func(_ context.Context, c *noteClaim) error {
		if runs++; runs <= 5 {
			return workqueue.Snooze(0)
		}
		return nil
	})
	id := r.insert("tired")[0]
	r.awaitStatus(workqueue.Done, id)
	if row := r.row(id); row.Attempts != 1 {
		t.Errorf("%d attempts after five snoozes and an ack, want 1", row.Attempts)
	}
}

// A handler that ends its goroutine, as t.FailNow does, must not end one of the worker's goroutines with it.
func TestWorkerKeepsItsConcurrency(t *testing.T) {
	t.Parallel()
	const concurrency = 3
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.MaxAttempts = 1 }})
	together := make(chan struct{}, concurrency)
	release := make(chan struct{})
	w := r.start(workqueue.WorkerOptions{Concurrency: concurrency}, func(ctx context.Context, c *noteClaim) error {
		switch c.Body.Topic {
		case "exit":
			runtime.Goexit()
		case "panic":
			panic("once more")
		}
		together <- struct{}{}
		<-release
		return nil
	})
	r.awaitStatus(workqueue.Failed, r.insertMany("exit", 4*concurrency)...)
	r.awaitStatus(workqueue.Failed, r.insertMany("panic", 4*concurrency)...)
	ids := r.insertMany("together", concurrency)
	for range concurrency {
		receive(t, together, "all handlers at once")
	}
	close(release)
	r.awaitStatus(workqueue.Done, ids...)
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
}

// Neither may a hook of the application that does so, whether a worker or a drain runs it.
func TestAHookThatEndsItsGoroutineIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	exits := func(context.Context, *noteClaim) error { runtime.Goexit(); return nil }
	for name, hook := range map[string]func(*workqueue.Domain[note], *workqueue.WorkerOptions){
		"leaves": func(d *workqueue.Domain[note], _ *workqueue.WorkerOptions) { d.Leaves = exits },
		"redact": func(_ *workqueue.Domain[note], o *workqueue.WorkerOptions) {
			o.Redact = func(context.Context, string) string { runtime.Goexit(); return "" }
		},
	} {
		for place, run := range map[string]func(*rig, workqueue.Domain[note], workqueue.WorkerOptions){
			"worker": func(r *rig, d workqueue.Domain[note], o workqueue.WorkerOptions) {
				r.startOn(r.Pool, d, o, failing)
			},
			"drain": func(r *rig, d workqueue.Domain[note], o workqueue.WorkerOptions) {
				w, err := workqueue.NewWorker(r.Pool, d, failing, o)
				if err != nil {
					r.Fatal(err)
				}
				drain, err := w.Drain()
				if err != nil {
					r.Fatal(err)
				}
				if n, err := drain.Process(r.Context()); n != 4 || err != nil {
					r.Errorf("drained %d rows, %v", n, err)
				}
			},
		} {
			t.Run(name+" in a "+place, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.MaxAttempts = 1 }})
				o := workqueue.WorkerOptions{Concurrency: 2}
				domain := r.Domain
				hook(&domain, &o)
				ids := r.insertMany("exit", 4)
				run(r, domain, o)
				r.awaitStatus(workqueue.Failed, ids...)
				if e := r.row(ids[0]).Error; !strings.Contains(e, "goroutine") {
					t.Errorf("the row says %q", e)
				}
			})
		}
	}
}

func failing(context.Context, *noteClaim) error { return errors.New("failed") }

// A domain that panics when it is asked whether it leaves a row has a bug, which must not go unnoticed.
func TestAPanicOfLeavesIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	domain := r.Domain
	domain.Leaves = func(context.Context, *noteClaim) error { panic("no rule for it") }
	r.startOn(r.Pool, domain, workqueue.WorkerOptions{}, func(context.Context, *noteClaim) error { return nil })
	ids := r.insert("t")
	r.awaitStatus(workqueue.Done, ids...)
	for _, want := range []string{"Domain.Leaves panicked", "no rule for it", ids[0].String()} {
		if !strings.Contains(r.Logs.tail(), want) {
			t.Errorf("the log does not say %q:\n%s", want, r.Logs.tail())
		}
	}
}

func TestWorkerRedactsErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	redact := func(_ context.Context, message string) string {
		if strings.Contains(message, "explode") {
			panic("redactor: " + message)
		}
		return strings.ReplaceAll(message, "hunter2", "***") + "\x00"
	}
	r.start(workqueue.WorkerOptions{Redact: redact}, func(ctx context.Context, c *noteClaim) error {
		switch c.Body.Topic {
		case "panic":
			panic("password hunter2")
		case "redactor panics":
			return errors.New("explode hunter2")
		case "cancelled":
			return workqueue.Cancelled("hunter2")
		}
		return workqueue.Permanent(errors.New("password hunter2"))
	})
	for _, id := range r.insert("fail", "panic", "cancelled", "redactor panics") {
		r.eventually("an error", func() bool { return r.row(id).Error != "" })
		if row := r.row(id); strings.Contains(row.Error, "hunter2") {
			t.Errorf("%s: stored %q", row.Topic, row.Error)
		}
	}
	if strings.Contains(r.Logs.String(), "hunter2") {
		t.Errorf("logged: %s", r.Logs.tail())
	}
}

// A row that does not fit its Go type fails only its own attempt.
func TestWorkerUnreadableRowFailsAlone(t *testing.T) {
	t.Parallel()
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{
				spec: func(s *workqueue.Spec) { s.MaxAttempts = 2 },
				pool: withExecMode(mode),
			})
			good := r.insertMany("good", 10)
			bad := r.insertRows(workqueue.NewRow{Values: []any{"bad", nil}})[0] // note.Payload is no pointer
			good = append(good, r.insertMany("good", 10)...)
			r.start(workqueue.WorkerOptions{}, func(_ context.Context, c *noteClaim) error {
				if c.Body.Topic != "good" {
					t.Errorf("a handler got the unreadable row: %+v", c.Body)
				}
				return nil
			})
			r.awaitStatus(workqueue.Done, good...)
			r.awaitStatus(workqueue.Failed, bad)
			if n := r.count("topic = 'good' AND attempts > 1"); n > 0 {
				t.Errorf("%d neighbours of the unreadable row were claimed twice", n)
			}
			if row := r.row(bad); row.Attempts != 2 || !strings.Contains(row.Error, "NULL") {
				t.Errorf("the unreadable row: %+v", row)
			}
		})
	}
}

func TestWorkerHandlerTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	r.start(workqueue.WorkerOptions{HandlerTimeout: 20 * time.Millisecond}, func(ctx context.Context,
		c *noteClaim) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	id := r.insert("slow")[0]
	r.eventually("the attempt to fail", func() bool { return r.row(id).Error != "" })
	if row := r.row(id); row.Status != workqueue.Ready || !strings.Contains(row.Error, "exceeded its timeout of 20ms") {
		t.Errorf("%+v", row)
	}
}

// A hostile error of a function that was given to Tx rolls its writes back and settles the attempt as failed.
func TestHostileErrorsOfTx(t *testing.T) {
	t.Parallel()
	r := newLedgerRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	r.start(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
		return c.Tx(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO ledger (note, attempt) VALUES ($1, $2)", c.ID,
				c.Attempt); err != nil {
				return err
			}
			if c.Body.Topic == "nil" {
				var e *hostileError
				return e
			}
			return &hostileError{"boom"}
		})
	})
	r.insert("nil")
	r.insert("hostile")
	r.eventually("both attempts to fail", func() bool {
		return r.count("status = 0 AND attempts = 1 AND last_error "+
			"IS NOT NULL") == 2
	})
	if n := ask[int](r, "SELECT count(*)::int FROM ledger"); n != 0 {
		t.Errorf("%d writes were committed", n)
	}
}

// Attempts do not limit a handler that snoozes without a delay: the minimum pause does.
func TestSnoozeHasAMinimum(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	runs := make(chan time.Time, 10)
	r.start(workqueue.WorkerOptions{}, func(context.Context, *noteClaim) error {
		runs <- time.Now()
		if len(runs) < 4 {
			return workqueue.Snooze(0)
		}
		return nil
	})
	r.insert("early")
	r.eventually("the row to be done", func() bool { return r.count("status = 2") == 1 })
	for last := <-runs; len(runs) > 0; {
		next := <-runs
		if pause := next.Sub(last); pause < workqueue.MinSnooze {
			t.Errorf("the row came again after %v, want at least %v", pause, workqueue.MinSnooze)
		}
		last = next
	}
}
