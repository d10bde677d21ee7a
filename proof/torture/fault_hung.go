//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// hungReceivers lets the handlers of two topics hang, with more rows than all workers have places, while messages of
// other topics arrive at a steady rate. Those have to be done at nine tenths of their rate without the hung topics at
// least. When the receivers answer again, their rows have to be done, too.
type hungReceivers struct {
	plain
	inQuiet
}

const (
	hungTopics     = 2
	healthyTopics  = 4
	healthyRate    = 1000 // arrivals a second
	healthyBatch   = 20
	healthyFor     = 4 * time.Second
	healthyPart    = 0.9 // of the rate alone
	hungFile       = "hung"
	hungLooksEvery = 50 * time.Millisecond
)

// hungBeside is the file whose existence makes receivers hang, for processes that write their journals beside it.
func hungBeside(journal string) string { return filepath.Join(filepath.Dir(journal), hungFile) }

// hang returns when the receiver answers again.
func hang(ctx context.Context, file string) error {
	for {
		if _, err := os.Stat(file); err != nil {
			return nil
		}
		if err := dawdle(ctx, hungLooksEvery); err != nil {
			return err
		}
	}
}

func (hungReceivers) strike(ctx context.Context, l *lab, random *rand.Rand) (detail string, err error) {
	pool, err := l.open(ctx, "healthy", 4, nil)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	h := &holding{lab: l, random: random, pool: pool}
	if err := h.awaitQuiet(ctx); err != nil {
		return "", err
	}
	alone, err := h.flow(ctx)
	if err != nil {
		return "", err
	}
	file := filepath.Join(l.dir, hungFile)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return "", err
	}
	defer os.Remove(file)
	l.hit = time.Now()
	if _, err := h.commit(ctx, h.hungRows); err != nil {
		return "", err
	}
	var beside float64
	for range laps { // a machine may be slow for a moment, but a receiver that hangs goes on hanging
		if beside, err = h.flow(ctx); err != nil || beside >= healthyPart*alone {
			break
		}
	}
	if err = errors.Join(err, os.Remove(file)); err != nil {
		return "", err
	}
	if err := h.awaitDue(ctx, time.Now()); err != nil {
		l.fail("%s after hung receivers answered again: %v", progress, err)
	}
	if beside < healthyPart*alone {
		again, err := h.flow(ctx)
		if alone = min(alone, again); err == nil && beside < healthyPart*alone {
			l.fail("beside hung receivers %.0f messages a second of other topics are done, %.0f without them", beside, alone)
		}
	}
	return fmt.Sprintf("healthy topics: %.0f done a second, %.0f alone, %.2f", beside, alone, beside/alone), nil
}

// hungRows are twice as many as the workers have places.
func (h *holding) hungRows(ctx context.Context, p *producer, tx pgx.Tx) (names []announced, err error) {
	var messages []outbox.Message
	for i := range 2 * handlersEach * len(h.crew.workers()) {
		id := uuid.Must(uuid.NewV7())
		messages = append(messages, outbox.Message{ID: id, Topic: fmt.Sprint("hung ", i%hungTopics),
			Payload: fmt.Appendf(nil, `{"mode":%q,"name":%q}`, modeHang, id)})
		names = append(names, announce("outbox", id.String()))
	}
	_, err = p.domains.outbox.EnqueueMany(ctx, workqueue.Pgx(tx), messages...)
	return names, err
}

// flow writes messages of healthy topics at their rate for a while, and returns how many a second were done meanwhile.
func (h *holding) flow(ctx context.Context) (rate float64, err error) {
	var ids []string
	begun := time.Now()
	tick := time.NewTicker(healthyBatch * time.Second / healthyRate)
	defer tick.Stop()
	for time.Since(begun) < healthyFor {
		names, err := h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) (names []announced, err error) {
			messages := make([]outbox.Message, healthyBatch)
			for i := range messages {
				id := uuid.Must(uuid.NewV7())
				messages[i] = outbox.Message{ID: id, Topic: fmt.Sprint("healthy ", i%healthyTopics),
					Payload: plainly(id.String())}
				names = append(names, announce("outbox", id.String()))
			}
			_, err = p.domains.outbox.EnqueueMany(ctx, workqueue.Pgx(tx), messages...)
			return names, err
		})
		if err != nil {
			return 0, err
		}
		for _, n := range names {
			ids = append(ids, n.name)
		}
		<-tick.C
	}
	done, err := doneOf(ctx, h.pool, h.schema, ids)
	return float64(done) / time.Since(begun).Seconds(), err
}

func doneOf(ctx context.Context, pool *pgxpool.Pool, schema string, ids []string) (done int, err error) {
	err = pool.QueryRow(ctx, "SELECT count(completed_at) FROM "+schema+".outbox WHERE id = ANY ($1::text[]::uuid[])",
		ids).Scan(&done)
	return done, err
}
