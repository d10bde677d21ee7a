package workqueue

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// A RunHead is a claimed row of whose key a run is to be taken, so many rows at most.
type RunHead struct {
	ID, Token uuid.UUID
	Most      int
}

// TakeRuns claims runs, and returns the ids of their rows behind each head, in order.
func (q *Queue) TakeRuns(ctx context.Context, heads ...RunHead) (map[uuid.UUID][]uuid.UUID, error) {
	req := runRequest{lease: time.Minute, target: q.table.anyTarget}
	for _, h := range heads {
		req.heads, req.most = append(req.heads, claimRef{h.ID, h.Token}), append(req.most, h.Most)
	}
	rows, of, err := q.claimRuns(ctx, req)
	places := make([]int, len(rows))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return int(of.seqs[a] - of.seqs[b]) })
	runs := map[uuid.UUID][]uuid.UUID{}
	for _, i := range places {
		runs[of.heads[i]] = append(runs[of.heads[i]], rows[i].ID)
	}
	return runs, err
}

// SettleRun settles the rows of a run with the results of a handler, in order. It returns those that were changed.
func (q *Queue) SettleRun(ctx context.Context, token uuid.UUID, ids []uuid.UUID, results ...error) ([]uuid.UUID,
	error) {
	of := new(runName)
	batch := make([]*settlement, len(ids))
	for i, id := range ids {
		o := outcomeOf(results[i])
		batch[i] = &settlement{claimRef: claimRef{id, token}, outcome: o, message: o.stored(ctx, nil), run: of,
			place: i}
	}
	done, err := q.settle(ctx, batch, onlyTry)
	return done.ids, err
}

// RunTexts are the statements of runs.
func (t *Table) RunTexts() (take, settle string) {
	return t.statements().run.Text, t.statements().settleRun.Text
}
