package periodic

import (
	"context"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
)

// Pause stops a schedule until [Plan.Resume]. Pausing a paused schedule does nothing. Occurrences that were already
// written are left to the domain; those that are due and not written are dropped.
func (p *Plan) Pause(ctx context.Context, tx workqueue.Tx, name string) error {
	if _, err := p.find(ctx, tx, name); err != nil {
		return err
	}
	_, err := p.table.In(tx).Exec(ctx, p.statements.pause, name)
	return err
}

// Resume ends a pause: the schedule continues from now. Occurrences that it would have fired meanwhile are not caught
// up, regardless of the misfire policy; [Plan.Backfill] writes them. An interval keeps its phase. Resuming a schedule
// that is not paused does nothing.
func (p *Plan) Resume(ctx context.Context, tx workqueue.Tx, name string) error {
	s, err := p.find(ctx, tx, name)
	if err != nil || !s.Paused {
		return err
	}
	parsed, err := schedule.Parse(s.Expr, s.Zone)
	if err != nil {
		return refuse(name, err)
	}
	phase := s.phase()
	next, err := definition{s.Schedule, parsed}.first(&phase, s.now)
	if err != nil {
		return err
	}
	return p.table.In(tx).Query(ctx, discard, p.statements.resume, s.ID, next,
		p.dueAt(s.Rule, next).Add(-s.ahead), nil)
}

// Delete removes a schedule. Occurrences that were already written are left to the domain.
func (p *Plan) Delete(ctx context.Context, tx workqueue.Tx, name string) error {
	if _, err := p.find(ctx, tx, name); err != nil {
		return err
	}
	_, err := p.table.In(tx).Exec(ctx, p.statements.remove, name)
	return err
}
