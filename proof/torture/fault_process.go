//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// poison writes rows whose handlers end their process, by os.Exit or by a panic in another goroutine. These rows must
// become dead letters when their attempts are used up.
type poison struct{ plain }

const (
	poisonRows     = 2
	poisonAttempts = 2
	poisonLimit    = 3 * time.Minute // they are due later than everything else
)

func (poison) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	var ids []string
	p := newProducer(l.shop, l.admin, random.Uint64())
	err := p.transactSurely(ctx, func(ctx context.Context, tx pgx.Tx) (names []announced, err error) {
		ids = nil
		for range poisonRows {
			message, job := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
			payload := fmt.Appendf(nil, `{"mode":%q,"name":%q}`, modeExit, message)
			_, err = p.domains.outbox.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{ID: message, Topic: topic,
				Payload: payload, MaxAttempts: poisonAttempts})
			if err != nil {
				return nil, err
			}
			_, err = p.domains.jobs.Enqueue(ctx, workqueue.Pgx(tx), Task{Mode: modeChildPanic, Name: job.String()},
				jobs.InsertOptions{ID: job, MaxAttempts: poisonAttempts})
			if err != nil {
				return nil, err
			}
			names = append(names, announce("outbox", message.String()), announce("jobs", job.String()))
			ids = append(ids, message.String(), job.String())
		}
		return names, nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d rows", len(ids)), l.awaitDead(ctx, ids)
}

// awaitDead waits until rows have failed. They must not end in another way.
func (l *lab) awaitDead(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, poisonLimit)
	defer cancel()
	for {
		var dead, ended int
		err := l.admin.QueryRow(ctx, strings.ReplaceAll(`
			SELECT count(*) FILTER (WHERE status = 3 AND attempts = $2), count(completed_at) FROM (
				SELECT id, status, attempts, completed_at FROM @.outbox UNION ALL SELECT id, status, attempts, completed_at FROM @.jobs) AS r
			WHERE id = ANY ($1::text[]::uuid[])`, "@", l.schema), ids, poisonAttempts).Scan(&dead, &ended)
		switch {
		case err == nil && dead == len(ids):
			return nil
		case err == nil && ended == len(ids):
			l.fail("of %d rows that end their process only %d are dead letters with all their attempts", len(ids), dead)
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d of %d rows are dead letters after %v", dead, len(ids), poisonLimit)
		}
		time.Sleep(lease / 10)
	}
}

// starvedPool gives a worker two connections for its handlers, which hold them longer than they need.
type starvedPool struct{ plain }

func (starvedPool) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	return l.as(ctx, random, func(config *setup) { config.PoolSize, config.HoldConns = 2, true }, nil, func() error {
		time.Sleep(lease + episode)
		return nil
	})
}

// shutdownStorm sends SIGTERM at every step of a worker's life. Each time the process has to end in order: with exit
// code 0 and no goroutine left.
type shutdownStorm struct{ plain }

const (
	storm      = 6
	stormPause = 300 * time.Millisecond
)

func (shutdownStorm) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	ended := 0
	for range storm {
		_, m, err := l.crew.pick(ctx, random)
		if err != nil {
			return "", err
		}
		if step := random.IntN(len(points) + 1); step < len(points) {
			m.tell(order{points[step], signalTerm})
			select {
			case <-m.reached:
			case <-m.ended:
			case <-time.After(stormPause):
				m.tell(order{pointNow, signalTerm})
			}
		} else {
			time.Sleep(time.Duration(random.Int64N(int64(stormPause))))
			m.tell(order{pointNow, signalTerm})
		}
		if !l.endedInOrder(m) {
			continue
		}
		ended++
	}
	return fmt.Sprintf("%d processes, %d in order", storm, ended), nil
}

func (l *lab) endedInOrder(m *member) bool {
	select {
	case <-m.ended:
	case <-time.After(stopLimit):
		l.fail("%s did not heed SIGTERM within %v", m.app, stopLimit)
		m.signal(syscall.SIGKILL)
		<-m.ended
		return false
	}
	if m.err != nil && !m.poisoned() {
		l.fail("%s did not end in order: %v\n%s", m.app, m.err, m.stderr.String())
	}
	return m.err == nil
}
