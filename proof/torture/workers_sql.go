//go:build unix

package torture

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/proof/torture/sqlcrew"
)

// runSQLWorker serves all four domains and the log by the SQL functions until ctx is cancelled, with the handlers and
// the journal of the other workers.
func runSQLWorker(ctx context.Context, s setup, config *pgx.ConnConfig, j *journal, p *pointSet) error {
	h := &handlers{setup: s, journal: j, points: p}
	h.unasked.Store(int64(len(auditedTables(s.Schema))))
	w := &sqlcrew.Worker{
		Connect: config, Schema: s.Schema, Consumer: consumer, Lease: lease, Poll: s.poll(), Grace: shutdownLimit,
		Places: handlersEach, InTransactions: s.Freeze != "", Parked: bySQLOnly,
		Fetched: h.fetched, Asked: h.served, Settled: func() { p.reach(pointSettled) }, Handle: h.row,
	}
	if !s.NoListen {
		listen, err := s.listenConfig()
		if err != nil {
			return err
		}
		w.Listen = listen
	}
	var all sync.WaitGroup
	all.Go(func() { h.readBySQL(ctx, config) })
	w.Run(ctx)
	all.Wait()
	return nil
}

// row runs the handler of a row. That of the inbox runs in the transaction that completes the row, as in Go.
func (h *handlers) row(ctx context.Context, r *sqlcrew.Row) sqlcrew.Outcome {
	if r.Table == logTable+"_parked" {
		return h.parkedBySQL(ctx, r)
	}
	d := delivery{r.Table, r.Name, r.Attempt, time.Time{}, decode(r.Payload), r.Complete}
	if r.Table != "inbox" {
		return sqlOutcome(h.handle(ctx, d), r.Attempt)
	}
	return sqlOutcome(r.Complete(ctx, func(tx pgx.Tx) error {
		d.tx = func(_ context.Context, fn func(pgx.Tx) error) error { return fn(tx) }
		return h.handle(ctx, d)
	}), r.Attempt)
}

func sqlOutcome(err error, attempt int) sqlcrew.Outcome {
	if err == nil {
		return sqlcrew.Outcome{What: "ack"}
	}
	if s, ok := errors.AsType[snoozed](err); ok {
		return sqlcrew.Outcome{What: "snooze", Delay: time.Duration(s)}
	}
	if _, ok := errors.AsType[permanently](err); ok {
		return sqlcrew.Outcome{What: "fail", Error: err.Error()}
	}
	if _, ok := errors.AsType[unreachable](err); ok {
		return sqlcrew.Outcome{What: "unavailable", Error: err.Error()}
	}
	delay := min(retryBase<<min(attempt-1, 10), retryCap)
	return sqlcrew.Outcome{What: "retry", Delay: delay, Error: err.Error()}
}
