package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	batchSize = 1000
	ackers    = 2 // while one waits for its commit to reach the disk, the other one updates rows
	pollEvery = time.Second
)

// claimed are the jobs of one claim.
type claimed struct {
	token uuid.UUID
	ids   []pgtype.UUID
}

// A place is a position in the index of live jobs.
type place struct {
	due time.Time
	id  pgtype.UUID
}

// start lies before every job.
var start = place{due: time.Unix(0, 0), id: pgtype.UUID{Valid: true}}

func (p place) before(o place) bool {
	return cmp.Or(p.due.Compare(o.due), bytes.Compare(p.id.Bytes[:], o.id.Bytes[:])) < 0
}

// Work pipelines one claimer and its ackers.
func (s *session) Work(ctx context.Context, handled func()) error {
	batches := make(chan claimed, ackers)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(batches)
		return s.claimAll(ctx, batches)
	})
	for range ackers {
		group.Go(func() error { return s.ackAll(ctx, batches, handled) })
	}
	return group.Wait()
}

// claimAll claims until ctx ends. Batches that are claimed by then are still acked.
func (s *session) claimAll(ctx context.Context, batches chan<- claimed) error {
	conn, err := s.claimer(context.WithoutCancel(ctx)) // being stopped before the first claim is not a failure
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	cursor := start
	for ctx.Err() == nil {
		batch, last, err := claimBatch(context.WithoutCancel(ctx), conn, cursor)
		if err != nil {
			return err
		}
		if len(batch.ids) > 0 {
			cursor = last
			batches <- batch
		}
		if len(batch.ids) == batchSize {
			continue
		}
		cursor = start // jobs may have been committed before the cursor
		if len(batch.ids) == 0 {
			err = await(ctx, conn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claimer opens the connection that claims. Its commits do not wait for the disk, because a crash that loses a claim
// leaves the job unclaimed.
func (s *session) claimer(ctx context.Context) (*pgx.Conn, error) {
	config := s.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["synchronous_commit"] = "off"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "LISTEN job")
	return conn, err
}

// await waits for a notification or until it is time to poll.
func await(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pollEvery)
	defer cancel()
	_, err := conn.WaitForNotification(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

func claimBatch(ctx context.Context, conn *pgx.Conn, cursor place) (batch claimed, last place, err error) {
	batch.token = uuid.New()
	rows, err := conn.Query(ctx, claim, cursor.due, cursor.id, pgtype.UUID{Bytes: batch.token, Valid: true}, batchSize)
	if err != nil {
		return batch, start, err
	}
	batch.ids = make([]pgtype.UUID, 0, batchSize)
	var at place
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&at.id, &at.due, &payload}, func() error {
		batch.ids = append(batch.ids, at.id)
		if last.before(at) {
			last = at
		}
		return nil
	})
	return batch, last, err
}

func (s *session) ackAll(ctx context.Context, batches <-chan claimed, handled func()) error {
	for batch := range batches {
		for range batch.ids {
			handled()
		}
		if err := ackBatch(context.WithoutCancel(ctx), s.pool, s.ack, batch); err != nil {
			for range batches { // the claimer may be blocked on sending a batch
			}
			return err
		}
	}
	return nil
}

func ackBatch(ctx context.Context, pool *pgxpool.Pool, ack string, batch claimed) error {
	tag, err := pool.Exec(ctx, ack, batch.ids, pgtype.UUID{Bytes: batch.token, Valid: true})
	if err != nil {
		return err
	}
	if done := tag.RowsAffected(); done != int64(len(batch.ids)) {
		return fmt.Errorf("%d of %d jobs were acked: a lease has ended", done, len(batch.ids))
	}
	return nil
}
