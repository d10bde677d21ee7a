package codec_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

// A payload is encrypted for the row that will hold it, whose id is made first.
func ExampleBind() {
	secret := make([]byte, 32)
	rand.Read(secret) // in production from a key management service
	encrypted, err := aesgcm.New(aesgcm.Options{Current: aesgcm.Key{ID: "2026-01", Secret: secret}})
	if err != nil {
		log.Fatal(err)
	}
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		log.Fatal(err)
	}
	type patient struct{ Name string }
	patients := codec.Bind[patient](encrypted, box.Table().Name())

	admit := func(ctx context.Context, tx workqueue.Tx, p patient) error {
		m := outbox.Message{ID: codec.NewID(), Topic: "patient.admitted",
			Headers: map[string]string{codec.TenantHeader: "st-mary"}}
		if m.Payload, err = patients.Encode(ctx, m.ID, m.Headers, p); err != nil {
			return err
		}
		_, err := box.Enqueue(ctx, tx, m)
		return err
	}
	handle := func(ctx context.Context, m *outbox.Delivery) error {
		p, err := patients.Decode(ctx, m.ID, m.Headers, m.Payload)
		if err != nil {
			return err // a failed attempt
		}
		fmt.Println("welcome", p.Name)
		return nil
	}
	relay := func(pool *pgxpool.Pool) (*outbox.Relay, error) {
		r, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
		if err == nil {
			r.Handle("patient.admitted", handle)
		}
		return r, err
	}
	_, _ = admit, relay

	// What the relay does with such a message:
	m := &outbox.Delivery{ID: codec.NewID()}
	if m.Payload, err = patients.Encode(context.Background(), m.ID, m.Headers, patient{"Ada"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(handle(context.Background(), m))
	m.ID = codec.NewID() // someone has copied the payload to another row
	fmt.Println(handle(context.Background(), m))
	// Output:
	// welcome Ada
	// <nil>
	// txwork: the payload does not decode into codec_test.patient: aesgcm: the payload's key "2026-01" does not open it: the bytes were changed, or belong to another row, table, field or tenant
}

// This handler takes values: the types follow from the function, and a payload that does not decode is a failed
// attempt.
func ExampleHandler() {
	type Order struct{ ID int }
	handle := codec.Handler(func(_ context.Context, _ *delivery, o Order) error {
		fmt.Println("order", o.ID)
		return nil
	})
	ctx := context.Background()
	fmt.Println(handle(ctx, &delivery{codec: codec.JSON{}, payload: []byte(`{"ID": 7}`)}))
	fmt.Println(handle(ctx, &delivery{codec: codec.JSON{}, payload: []byte(`{"ID": "x"}`)}) != nil)
	// Output:
	// order 7
	// <nil>
	// true
}
