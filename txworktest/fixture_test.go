package txworktest_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

// recorder is a test that is expected to fail.
type recorder struct {
	testing.TB
	messages []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any) { r.messages = append(r.messages, fmt.Sprint(args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// messages runs a test that is expected to fail, and returns its messages, including those of its cleanups.
func messages(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		test(r)
	}()
	<-ended
	return strings.Join(r.messages, "\n")
}

// fails expects a test to fail with messages that have all of the texts.
func fails(t *testing.T, test func(t testing.TB), want ...string) {
	t.Helper()
	got := messages(t, test)
	for _, text := range want {
		if !strings.Contains(got, text) {
			t.Errorf("the test failed with %q, want %q in it", got, text)
		}
	}
	if got == "" {
		t.Error("the test did not fail")
	}
}

// fixture is an outbox in a schema of its own.
type fixture struct {
	*testing.T
	*txworktest.DB
	box *outbox.Outbox
}

func newFixture(t *testing.T, configure ...func(*pgxpool.Config)) *fixture {
	t.Helper()
	db := txworktest.Schema(t, txworktest.Server(t), configure...)
	box, err := outbox.Open(outbox.Options{
		Schema:      db.Schema,
		MaxAttempts: 3,
		Retry:       workqueue.Retry{Growth: workqueue.Constant, Base: time.Minute, Cap: time.Minute},
		Telemetry:   workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, db, box}
}

// enqueue writes messages in a transaction of their own.
func (f *fixture) enqueue(msgs ...outbox.Message) []uuid.UUID {
	f.Helper()
	var ids []uuid.UUID
	err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
		ids = f.enqueueIn(tx, msgs...)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	return ids
}

func (f *fixture) enqueueIn(tx pgx.Tx, msgs ...outbox.Message) []uuid.UUID {
	f.Helper()
	enqueued, err := f.box.EnqueueMany(f.Context(), workqueue.Pgx(tx), msgs...)
	if err != nil {
		f.Fatal(err)
	}
	return workqueue.IDs(enqueued)
}

type handler = func(context.Context, *outbox.Delivery) error

func (f *fixture) relay(h handler) *outbox.Relay {
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		f.Fatal(err)
	}
	r.HandleAll(h)
	return r
}

func deliver(context.Context, *outbox.Delivery) error { return nil }

// outcomes summarizes what became of rows.
func outcomes(handled []txworktest.Handled) string {
	var texts []string
	for _, h := range handled {
		texts = append(texts, string(h.Outcome))
	}
	return strings.Join(texts, ", ")
}

func wantOutcomes(t *testing.T, handled []txworktest.Handled, want string) {
	t.Helper()
	if got := outcomes(handled); got != want {
		t.Errorf("got %q, want %q\n%v", got, want, handled)
	}
}

func ask[T any](f *fixture, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, text string, args ...any) (v T) {
	f.Helper()
	if err := q.QueryRow(f.Context(), text, args...).Scan(&v); err != nil {
		f.Fatal(err)
	}
	return v
}
