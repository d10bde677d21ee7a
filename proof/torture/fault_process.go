//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// poison writes rows whose handlers end their process, by os.Exit or by a panic in another goroutine, among rows that
// do nothing of the kind. The first must become dead letters when their attempts are used up. None of the others may:
// each process that ends takes some along.
type poison struct{ plain }

const (
	poisonRows       = 2
	poisonAttempts   = 2
	innocentRows     = 20 // beside each poison, of its table
	innocentAttempts = 4
	poisonLimit      = 3 * time.Minute // they are due later than everything else
)

func (poison) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	var poisons, innocents []string
	p := newProducer(l.shop, l.admin, random.Uint64())
	err := p.transactSurely(ctx, func(ctx context.Context, tx pgx.Tx) (names []announced, err error) {
		poisons, innocents = nil, nil
		for i := range poisonRows * (1 + innocentRows) {
			message, job := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
			names = append(names, announce("outbox", message.String()), announce("jobs", job.String()))
			modes, most, of := [2]string{modePlain, modeTx}, innocentAttempts, &innocents
			if i%(1+innocentRows) == innocentRows/2 {
				modes, most, of = [2]string{modeExit, modeChildPanic}, poisonAttempts, &poisons
			}
			*of = append(*of, message.String(), job.String())
			payload := fmt.Appendf(nil, `{"mode":%q,"name":%q}`, modes[0], message)
			if _, err = p.domains.outbox.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{ID: message, Topic: topic,
				Payload: payload, MaxAttempts: most}); err != nil {
				return nil, err
			}
			if _, err = p.domains.jobs.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{ID: job, MaxAttempts: most,
				Args: Task{Mode: modes[1], Name: job.String()}}); err != nil {
				return nil, err
			}
		}
		return names, nil
	})
	if err != nil {
		return "", err
	}
	l.pausing.Store(true) // each attempt waits until the rows before it have ended, but for no later ones
	defer l.pausing.Store(false)
	detail := fmt.Sprintf("%d rows among %d others", len(poisons), len(innocents))
	err = l.awaitEnd(ctx, poisons, "status = 3 AND attempts = "+strconv.Itoa(poisonAttempts),
		"dead letters with all their attempts, though they end their process")
	if err != nil {
		return detail, err
	}
	return detail, l.awaitEnd(ctx, innocents, "status = 2", "done, though only their neighbours end the process")
}

// awaitEnd waits until rows have ended. All of them must have ended so.
func (l *lab) awaitEnd(ctx context.Context, ids []string, so, meaning string) error {
	ctx, cancel := context.WithTimeout(ctx, poisonLimit)
	defer cancel()
	query := strings.NewReplacer("@", l.schema, "{so}", so).Replace(`
		SELECT count(*) FILTER (WHERE {so}), count(completed_at) FROM (
			SELECT id, status, attempts, completed_at FROM @.outbox UNION ALL SELECT id, status, attempts, completed_at FROM @.jobs) AS r
		WHERE id = ANY ($1::text[]::uuid[])`)
	for {
		var good, ended int
		err := l.admin.QueryRow(ctx, query, ids).Scan(&good, &ended)
		switch {
		case err == nil && good == len(ids):
			return nil
		case err == nil && ended > good:
			l.fail("of %d rows only %d are %s", len(ids), good, meaning)
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d of %d rows are %s after %v", good, len(ids), meaning, poisonLimit)
		}
		time.Sleep(lease / 10)
	}
}

// starvedPool gives a worker two connections for its handlers, which hold them longer than they need.
type starvedPool struct{ plain }

func (starvedPool) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	starve := func(config *setup) { config.PoolSize, config.HoldConns = 2, true }
	return l.asOneOf(ctx, random, l.crew.of(roleWorker), starve, nil, func() error {
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
