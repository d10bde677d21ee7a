package main

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/outbox/outboxhttp"
)

// newRelay delivers messages to the URL of another service.
func newRelay(pool *pgxpool.Pool, box *outbox.Outbox, url string) (*outbox.Relay, error) {
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		return nil, err
	}
	poster, err := outboxhttp.NewPoster(outboxhttp.Options{URL: url})
	if err != nil {
		return nil, err
	}
	relay.Handle("order.placed", poster.Deliver)
	return relay, nil
}
