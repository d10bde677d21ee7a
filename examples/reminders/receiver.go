package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/webhook"
)

// A receiver is the webhook to which wakes are posted. It verifies their signatures, and acts on each wake once.
type receiver struct {
	pool   *pgxpool.Pool
	signer *webhook.Signer
}

func openReceiver(ctx context.Context, pool *pgxpool.Pool) (*receiver, error) {
	signer, err := webhook.NewSigner(secret)
	if err != nil {
		return nil, err
	}
	err = example.Fresh(ctx, pool, "example_reminders", `CREATE TABLE example_reminders.received (
		webhook_id text PRIMARY KEY, alarm_id text, message text, attempt int)`)
	return &receiver{pool: pool, signer: signer}, err
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var id string // only what the signature covers: r.Header may have more
	if err == nil {
		id, err = v.signer.Verify(r.Header, body, 0)
	}
	var wake alarms.Wake
	if err == nil {
		err = json.Unmarshal(body, &wake)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case strings.HasSuffix(wake.Message, "plant 7") && wake.Attempt == 1:
		http.Error(w, "come back later", http.StatusServiceUnavailable)
		return
	}
	// A wake may arrive twice, with the same webhook-id. ON CONFLICT ignores the second one.
	_, err = v.pool.Exec(r.Context(),
		`INSERT INTO example_reminders.received VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		id, wake.AlarmID, wake.Message, wake.Attempt)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

// outlast waits until all reminders have ended. A failed delivery is repeated after half a minute. To avoid that wait,
// the example makes the timer of the failed delivery due now.
func outlast(ctx context.Context, pool *pgxpool.Pool) error {
	if err := example.Until(ctx, pool,
		`SELECT count(*) = 1 FROM example_reminders.alarms WHERE failure_count = 1`); err != nil {
		return err
	}
	_, err := pool.Exec(ctx,
		`UPDATE example_reminders.timers SET due_at = clock_timestamp() WHERE attempts = 1 AND completed_at IS NULL`)
	if err != nil {
		return err
	}
	return example.Until(ctx, pool,
		`SELECT NOT EXISTS (SELECT FROM example_reminders.alarms WHERE status = 'active' AND kind = 'once')`)
}
