//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
)

// frozenSessions are sessions of a worker that freeze in the middle of a transaction, while the worker's other sessions
// continue.
func frozenSessions() fault {
	f := &holders{}
	for _, what := range slices.Sorted(maps.Keys(freezable)) {
		f.all = append(f.all, holder{"a session that is frozen in " + what, func(ctx context.Context, h *holding) (grip,
			error) {
			return h.freeze(ctx, what)
		}})
	}
	return f
}

// freezeLimit is how long a worker may take to send the statement. A scheduler sends none while a time comes again.
const (
	freezeLimit = farthestBack + 10*time.Second
	freezeEvery = 200 * time.Millisecond
)

func (h *holding) freeze(ctx context.Context, what string) (g grip, err error) {
	slots := h.crew.of(roleWorker) // only they fold, sweep and decide in a transaction that stays open
	if slices.Contains(callable, what) {
		slots = h.crew.workers()
	}
	s := slots[h.random.IntN(len(slots))]
	if err := s.become(ctx, func(config *setup) { config.Freeze = what }, nil); err != nil {
		return g, err
	}
	m := s.present()
	g.detail = "of " + m.app
	g.release = func() error {
		m.tell(order{Point: pointThaw})
		return s.become(ctx, nil, nil)
	}
	for end := time.Now().Add(freezeLimit); time.Now().Before(end); {
		if _, err := h.commit(ctx, somethingToDo); err != nil {
			return g, errors.Join(err, g.release())
		}
		select {
		case statement := <-m.frozen:
			g.shared = folded(statement)
			return g, nil
		case <-time.After(freezeEvery):
		}
	}
	return g, errors.Join(fmt.Errorf("%s does not reach %s", m.app, what), g.release())
}

func somethingToDo(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
	b, err := p.startBatch(ctx, tx, 3, jobs.Insert{})
	if err != nil {
		return nil, err
	}
	one := outbox.Message{Key: newKey()}
	messages, err := p.sendPlain(ctx, tx, one, one, outbox.Message{})
	return append(b.rows(), messages...), err
}

// folded are the witnesses that wait during a fold, since only one session folds at a time.
func folded(statement string) (names []string) {
	for _, w := range witnesses {
		if w.keyed && freezable["a fold"].MatchString(statement) && strings.Contains(statement, w.table+"_") {
			names = append(names, w.name)
		}
	}
	return names
}
