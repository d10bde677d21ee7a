package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/txwork/txwork/bench/results"
)

// ErrCells says that cells have failed, while the others have been measured.
var ErrCells = errors.New("cells failed")

var (
	errNoLatencies = errors.New("the peer has measured no latencies")
	errCellLimit   = errors.New("the limit of a cell's time has passed")
)

// A Request is what to measure.
type Request struct {
	Options   results.Options
	Rounds    int
	Peers     []string           // names, or name:profile; empty for all that can be run here
	Workloads []results.Workload // empty for all
	Checkouts []Checkout         // peers besides those of this module
	Binaries  string             // directory of PostgreSQL's binaries; "" for those that are found
	File      string             // the file of results
	Resume    bool               // continue with what is missing in File, which otherwise must not exist
	CellLimit time.Duration      // the time after which a cell counts as failed
	SlowDisk  time.Duration      // additional time of each flush
	Progress  Progress
}

// Run measures all cells and writes each one as it ends. The error is [ErrCells] if some have failed. It stops when ctx
// ends.
func Run(ctx context.Context, r Request) (err error) {
	if err := r.check(); err != nil {
		return err
	}
	l, err := Open(ctx, r.Options, r.Binaries, r.SlowDisk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	entrants, err := l.entrants(ctx, r.list(), r.Peers, len(r.Peers) == 0, r.Progress.skipped)
	if err != nil {
		return err
	}
	if len(r.Workloads) == 0 {
		r.Workloads = results.Workloads
	}
	file, done, err := l.file(ctx, r)
	if err != nil {
		return err
	}
	defer file.Close()
	return l.all(ctx, r, plan(r.Workloads, entrants, r.Rounds), done, file)
}

// check checks before anything is started what would otherwise fail only later.
func (r Request) check() error {
	if err := r.checkFile(); err != nil {
		return err
	}
	return checkNames(r.list(), r.Peers)
}

// list returns the peers of which the request names some.
func (r Request) list() []peer {
	list := slices.Clone(peers)
	for _, c := range r.Checkouts {
		list = append(list, c.peer())
	}
	return list
}

// checkFile creates the file and removes it again, because only this shows that it can be created.
func (r Request) checkFile() error {
	if r.Resume {
		_, err := os.Stat(r.File)
		return err
	}
	file, err := os.OpenFile(r.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	switch {
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s: %w: go on with --resume, or remove it", r.File, os.ErrExist)
	case err != nil:
		return err
	}
	return errors.Join(file.Close(), os.Remove(r.File))
}

func (l *Lab) file(ctx context.Context, r Request) (*results.File, []results.Cell, error) {
	header, err := l.header(ctx)
	if err != nil {
		return nil, nil, err
	}
	if r.Resume {
		return results.Append(r.File, header)
	}
	file, err := results.Create(r.File, header)
	return file, nil, err
}

func (l *Lab) all(ctx context.Context, r Request, steps []step, done []results.Cell, file *results.File) error {
	steps = without(steps, done)
	clock := newEstimate(done)
	failed := 0
	for i, s := range steps {
		r.Progress.begins(s.Key, i+1, len(steps), clock.left(steps[i:]))
		cell, err := l.limited(ctx, s, r.CellLimit)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed++
			cell.Error = err.Error()
		}
		clock.add(cell)
		r.Progress.ended(cell)
		if err := file.Add(cell); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d %w", failed, len(steps), ErrCells)
	}
	return nil
}

func (l *Lab) limited(ctx context.Context, s step, limit time.Duration) (results.Cell, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errCellLimit)
	defer cancel()
	cell, err := l.measure(ctx, s)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return cell, err
}
