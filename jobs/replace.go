package jobs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A challenger is a job that is to replace the holder of its unique key.
type challenger struct {
	holder uuid.UUID
	prepared
}

// replace turns the holders of unique keys that are ready into the jobs that challenge them, and returns the ids of
// those that it changed. It runs after all inserts of a call, and locks the holders in the order of their ids, so that
// two calls that share keys and holders cannot deadlock.
func (c *Client) replace(ctx context.Context, tx workqueue.Tx, byHolder map[uuid.UUID]prepared) (map[uuid.UUID]bool,
	error) {
	list := make([]challenger, 0, len(byHolder))
	for id, p := range byHolder {
		list = append(list, challenger{id, p})
	}
	slices.SortFunc(list, func(a, b challenger) int { return bytes.Compare(a.holder[:], b.holder[:]) })
	changed := make(map[uuid.UUID]bool, len(list))
	for chunk := range input.Chunks(list, func(ch challenger) int { return input.RowSize(ch.row) }) {
		if err := c.replaceChunk(ctx, tx, chunk, changed); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

func (c *Client) replaceChunk(ctx context.Context, tx workqueue.Tx, list []challenger,
	changed map[uuid.UUID]bool) error {
	var r replacements
	for _, ch := range list {
		if err := r.add(ctx, c, ch); err != nil {
			return fmt.Errorf("txwork: replacing job %s by one of kind %q: %w", ch.holder, ch.record.kind, err)
		}
	}
	return c.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		changed[id] = true
		return err
	}, c.statements.replace, r.holders, r.keys, r.args, r.priorities, r.due, r.headers, r.maxAttempts, r.retries,
		r.states, r.queues, r.schedules, r.rules.keys, r.rules.limits, r.rules.policies, r.rules.rates, r.rules.bursts)
}

// replacements are the parameters of the statement, one array for each column.
type replacements struct {
	holders                         []uuid.UUID
	keys, queues                    []string
	headers, retries                []*string
	schedules                       []any
	args                            []any
	priorities, maxAttempts, states []*int64
	due                             []*time.Time
	rules                           rules
}

// rules are the columns of [keyed.Columns], except the place, which the database gives.
type rules struct{ keys, limits, policies, rates, bursts []any }

func (r *rules) add(rule keyed.Rule) {
	s := keyed.Stored(rule)
	r.keys, r.limits, r.policies = append(r.keys, s.Key), append(r.limits, s.Limit), append(r.policies, s.Policy)
	r.rates, r.bursts = append(r.rates, s.Rate), append(r.bursts, s.Burst)
}

// add appends a challenger. It encodes the args again, because a codec may bind them to the job's id, which is now the
// holder's, and to the tenant in the headers.
func (r *replacements) add(ctx context.Context, c *Client, ch challenger) error {
	args := ch.record.args
	if _, ok := ch.args.(*scheduledArgs); !ok { // those of a schedule are bound to the schedule
		var err error
		o := owner{id: ch.holder, kind: ch.record.kind, headers: ch.row.Headers}
		if args, err = c.encode(ctx, o, argsField, ch.args); err != nil {
			return err
		}
	}
	headers, retry, err := ch.row.Stored(ctx)
	if err != nil {
		return err
	}
	r.holders, r.keys, r.args = append(r.holders, ch.holder), append(r.keys, ch.record.uniqueKey), append(r.args, args)
	r.headers, r.retries = append(r.headers, headers), append(r.retries, retry)
	r.queues, r.schedules = append(r.queues, ch.record.queue), append(r.schedules, postgres.OrNull(ch.record.schedule))
	r.rules.add(ch.record.byKey)
	r.priorities = append(r.priorities, number(ch.record.priority))
	r.maxAttempts, r.states = append(r.maxAttempts, number(ch.row.MaxAttempts)),
		append(r.states, number(ch.record.uniqueStates))
	var due *time.Time
	if !ch.row.DueAt.IsZero() {
		due = &ch.row.DueAt
	}
	r.due = append(r.due, due)
	return nil
}

// number returns nil, which is NULL, for zero.
func number[N ~int | ~int16](n N) *int64 {
	if n == 0 {
		return nil
	}
	v := int64(n)
	return &v
}
