package outboxhttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/outbox/outboxhttp"
)

// A message is sent as a POST, and the answer decides the outcome of its delivery.
func Example() {
	full := false
	billing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if full {
			http.Error(w, "come back later", http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Header.Get("Idempotency-Key"), r.Header.Get("Txwork-Topic"), string(body))
	}))
	defer billing.Close()

	poster, err := outboxhttp.NewPoster(outboxhttp.Options{URL: billing.URL,
		Header: http.Header{"Authorization": {"Bearer token"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer poster.Close()

	// A relay does this: relay.Handle("order.placed", poster.Deliver)
	message := &outbox.Delivery{
		ID: uuid.MustParse("018f0000-0000-7000-8000-000000000007"), Topic: "order.placed", Payload: []byte(`{"id":7}`),
		Attempt: 1,
	}
	fmt.Println(poster.Deliver(context.Background(), message))
	full = true
	fmt.Println(poster.Deliver(context.Background(), message))
	// Output:
	// 018f0000-0000-7000-8000-000000000007 order.placed {"id":7}
	// <nil>
	// the receiver answered 503 Service Unavailable: come back later
}
