package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

type order struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

type shop struct {
	pool *pgxpool.Pool
	box  *outbox.Outbox
}

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.post)
	return mux
}

func (s *shop) post(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err := pgx.BeginFunc(r.Context(), s.pool, func(tx pgx.Tx) error { return s.place(r.Context(), tx, o) })
	if err != nil {
		http.Error(w, "the order was not placed", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// place writes an order, and the message that tells others of it.
func (s *shop) place(ctx context.Context, tx pgx.Tx, o order) error {
	if _, err := tx.Exec(ctx, `INSERT INTO orders (id, address) VALUES ($1, $2)`, o.ID, o.Address); err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = s.box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Payload: body})
	return err
}
