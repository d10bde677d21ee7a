package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
)

func TestAnOrderIsToldToBilling(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t)) // a schema of its own, with txwork's tables
	db.Migrate(t, os.DirFS("db/migrations"))         // and the shop's
	box, err := outbox.Open(outbox.Options{Schema: db.Schema})
	if err != nil {
		t.Fatal(err)
	}
	shop := &shop{pool: db.Pool, box: box}
	var received int
	billing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received++ }))
	defer billing.Close()
	relay, err := newRelay(db.Pool, box, billing.URL)
	if err != nil {
		t.Fatal(err)
	}

	tx := db.Begin(t) // rolled back when the test ends
	if err := shop.place(t.Context(), tx, order{"7", "Main Street 1"}); err != nil {
		t.Fatal(err)
	}
	txworktest.RequireEnqueued(t, tx, box, txworktest.Topic("order.placed"))
	if h := txworktest.RunOne(t, tx, relay); h.Outcome != txworktest.Done || received != 1 {
		t.Errorf("%v, %d messages were received", h, received)
	}
}
