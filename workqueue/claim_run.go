package workqueue

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A runRequest asks for the rows that follow heads in their keys: so many at most behind each.
type runRequest struct {
	heads  []claimRef
	most   []int
	lease  time.Duration
	target func(*Columns) any
}

// limit is how many rows it asks for.
func (r runRequest) limit() (n int) {
	for _, most := range r.most {
		n += most
	}
	return n
}

// A runAnswer is what stands before each row of a run: its head and its place in the key.
type runAnswer struct {
	head  uuid.UUID
	seq   int64
	heads []uuid.UUID
	seqs  []int64
}

func (a *runAnswer) columns(dest []any) []any { return append(dest, &a.head, &a.seq) }

func (a *runAnswer) read() (isRow bool) {
	a.heads, a.seqs = append(a.heads, a.head), append(a.seqs, a.seq)
	return true
}

// claimRuns claims the rows behind heads, with their tokens, and returns them by head, unordered. They have committed
// when it returns.
func (q *Queue) claimRuns(ctx context.Context, req runRequest) (rows []*claimedRow, answer runAnswer, err error) {
	args := refArgs(req.heads)
	args["most"], args["lease"] = req.most, conn.Interval(req.lease)
	limit := req.limit()
	scanner := claimScanner{req: &claimRequest{limit: limit, target: req.target}, table: q.table, answer: &answer}
	err = q.exec.run(ctx, conn.Call{
		Statement: q.table.statements().run,
		Args:      args,
		Lazy:      true,
		Writes:    true,
		Reset:     func() { scanner.rows, answer = make([]*claimedRow, 0, limit), runAnswer{} },
		Row:       scanner.scan,
	})
	if err != nil {
		return nil, runAnswer{}, err
	}
	return scanner.rows, answer, nil
}
