package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/bench/protocol"
)

type session struct {
	pool *pgxpool.Pool
	ack  string
}

func (s *session) InsertMany(ctx context.Context, bodies []protocol.Body) error {
	payloads := make([][]byte, len(bodies))
	for i, b := range bodies {
		var err error
		if payloads[i], err = json.Marshal(b); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{} // one transaction, in one round trip
	batch.Queue(insertMany, payloads)
	batch.Queue(notify)
	return s.pool.SendBatch(ctx, batch).Close()
}

func (s *session) InsertOne(ctx context.Context, body protocol.Body) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, insertOne, payload)
	return err
}

func (s *session) Close() { s.pool.Close() }
