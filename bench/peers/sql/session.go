package main

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/protocol"
)

type session struct {
	pool *pgxpool.Pool
	ack  string
}

func (s *session) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	ids, payloads := make([]pgtype.UUID, len(bodies)), make([][]byte, len(bodies))
	for i, b := range bodies {
		var err error
		if ids[i], err = newID(); err != nil {
			return err
		}
		if payloads[i], err = json.Marshal(b); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{} // one transaction, in one round trip
	batch.Queue(insertMany, ids, payloads)
	batch.Queue(notify)
	return s.pool.SendBatch(ctx, batch).Close()
}

func (s *session) InsertOne(ctx context.Context, body protocol.Body) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	// In an explicit transaction, as an application does that writes a job together with other changes.
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertOne, id, payload)
		return err
	})
}

// newID returns ascending ids.
func newID() (pgtype.UUID, error) {
	id, err := uuid.NewV7()
	return pgtype.UUID{Bytes: id, Valid: true}, err
}

func (s *session) Close() { s.pool.Close() }
