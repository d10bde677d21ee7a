// Reminders uses the alarms service over its REST API, as curl would. It creates, lists and cancels alarms, whose wakes
// are posted to a receiver. The receiver refuses one wake at first, to show a retry.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/timers/alarms"
)

const (
	reminders, cancelled = 20, 5
	token                = "ada-has-a-long-random-token"
	secret               = "whsec_c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0" // the receiver has it, too
)

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	receiver, err := openReceiver(ctx, pool)
	if err != nil {
		return err
	}
	webhook := httptest.NewServer(receiver)
	defer webhook.Close()

	// The following is what `txwork alarms serve` runs: the API, and the dispatcher, which delivers due alarms.
	all, err := alarms.Open(alarms.Options{Schema: "example_reminders"})
	if err != nil {
		return err
	}
	tokens, err := alarms.NewTokens(map[string]alarms.Owner{
		token:                          {DID: "did:example:ada", UserID: "ada"},
		"bob-has-another-random-token": {DID: "did:example:bob", UserID: "bob"},
	})
	if err != nil {
		return err
	}
	// Burst is how many requests one owner may send at once.
	server, err := alarms.NewServer(all.On(pool), tokens, alarms.ServerOptions{Burst: 100})
	if err != nil {
		return err
	}
	api := httptest.NewServer(server)
	defer api.Close()
	// AllowPrivate is needed because this receiver is on the loopback interface. Without it, wakes cannot reach your
	// own network.
	waker, err := alarms.NewHTTPWaker(alarms.HTTPWakerOptions{URL: webhook.URL, Secrets: []string{secret},
		AllowPrivate: true})
	if err != nil {
		return err
	}
	defer waker.Close()
	dispatcher, err := alarms.NewDispatcher(pool, all, waker, alarms.DispatcherOptions{})
	if err != nil {
		return err
	}
	do := func(ctx context.Context) error {
		if err := remind(ctx, api.URL); err != nil {
			return err
		}
		return outlast(ctx, pool)
	}
	if err := example.Serve(ctx, do, dispatcher.Run); err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `
		WITH a AS (SELECT * FROM example_reminders.alarms), r AS (SELECT * FROM example_reminders.received)
		VALUES ('reminders fired', (SELECT count(*) FROM a WHERE status = 'fired'), $1 - $2::bigint),
		('wakes received', (SELECT count(*) FROM r), $1 - $2),
		('of these, of reminders that fired', (SELECT count(*) FROM r JOIN a ON a.id::text = r.alarm_id AND a.status = 'fired'), $1 - $2),
		('wakes received at the second attempt', (SELECT count(*) FROM r WHERE attempt = 2), 1),
		('reminders cancelled', (SELECT count(*) FROM a WHERE status = 'cancelled'), $2),
		('series that goes on', (SELECT count(*) FROM a WHERE status = 'active' AND kind = 'cron'), 1)`, reminders, cancelled)
}

// remind is the client of the API.
func remind(ctx context.Context, url string) error {
	var created struct {
		ID      string
		Deduped bool
	}
	for i := range reminders {
		// A client that does not know whether its request arrived repeats it, with the same idempotency key.
		body := fmt.Sprintf(`{"kind": "once", "delay_seconds": 3, "wake_message": "water plant %d", "idempotency_key": "plant-%d"}`, i, i)
		for range 2 {
			if err := call(ctx, "POST", url+"/v1/alarms", token, body, &created); err != nil {
				return err
			}
		}
		if i < cancelled {
			if err := call(ctx, "DELETE", url+"/v1/alarms/"+created.ID, token, "", nil); err != nil {
				return err
			}
		}
	}
	standup := `{"kind": "cron", "cron_expr": "30 9 * * MON-FRI", "timezone": "Europe/Berlin", "wake_message": "stand-up"}`
	if err := call(ctx, "POST", url+"/v1/alarms", token, standup, &created); err != nil {
		return err
	}
	var list struct{ Count int }
	if err := call(ctx, "GET", url+"/v1/alarms", token, "", &list); err != nil {
		return err
	}
	// For other owners, Ada's alarms do not exist.
	err := call(ctx, "GET", url+"/v1/alarms/"+created.ID, "bob-has-another-random-token", "", nil)
	fmt.Printf("  Ada has %d alarms; what Bob gets of one of them: %v\n", list.Count, err)
	return nil
}

// call sends a request, and decodes the data of the answer or returns its error.
func call(ctx context.Context, method, url, token, body string, data any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		OK    bool
		Data  json.RawMessage
		Error struct{ Message string }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if !answer.OK {
		return fmt.Errorf("%s, %s", response.Status, answer.Error.Message)
	}
	if data == nil {
		return nil
	}
	return json.Unmarshal(answer.Data, data)
}
