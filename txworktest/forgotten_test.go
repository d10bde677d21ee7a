package txworktest_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

// A test that forgets the schema of its tables is told what to do, by each function that gets a domain or a worker.
func TestAForgottenSchema(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	box, err := outbox.Open(outbox.Options{Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(f.Pool, box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	relay.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	want := "txworktest: outbox was opened for the tables of schema txwork, and this test's are in " + f.Schema +
		": set Schema: db.Schema in its Options"
	tx := f.Begin(t)
	for name, do := range map[string]func(t testing.TB, q txworktest.Querier){
		"Enqueued":        func(t testing.TB, q txworktest.Querier) { txworktest.Enqueued(t, q, box) },
		"RequireEnqueued": func(t testing.TB, q txworktest.Querier) { txworktest.RequireEnqueued(t, q, box) },
		"RequireNone":     func(t testing.TB, q txworktest.Querier) { txworktest.RequireNone(t, q, box) },
		"RequireStatus": func(t testing.TB, q txworktest.Querier) {
			txworktest.RequireStatus(t, q, box, workqueue.Done)
		},
		"Advance":  func(t testing.TB, q txworktest.Querier) { txworktest.Advance(t, q, time.Hour, box) },
		"RunOne":   func(t testing.TB, q txworktest.Querier) { txworktest.RunOne(t, q, relay) },
		"Drain":    func(t testing.TB, q txworktest.Querier) { txworktest.Drain(t, q, relay) },
		"DrainAll": func(t testing.TB, q txworktest.Querier) { txworktest.DrainAll(t, q, relay) },
	} {
		for in, q := range map[string]txworktest.Querier{"pool": f.Pool, "transaction": tx} {
			if got := messages(t, func(t testing.TB) { do(t, q) }); got != want {
				t.Errorf("%s in a %s says %q, want %q", name, in, got, want)
			}
		}
	}

	// What the application itself calls says so, too.
	_, err = box.Enqueue(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "a"})
	if !errors.Is(err, workqueue.ErrSchemaVersion) ||
		!strings.Contains(err.Error(), "name the schema that has the tables") {
		t.Errorf("Enqueue says %v", err)
	}
}
