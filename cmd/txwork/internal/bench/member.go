package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/internal/measure"
)

// RunWorkers is a worker process of a [Drain] with Processes. The drain starts it and talks to it through in and out.
// It ends when in ends.
func RunWorkers(ctx context.Context, in io.Reader, out io.Writer, logger *slog.Logger) error {
	orders := json.NewDecoder(in)
	var a assignment
	if err := orders.Decode(&a); err != nil {
		return fmt.Errorf("txwork bench starts this by itself: %w", err)
	}
	w := &workers{
		lab: &lab{Options: Options{Logger: logger}, url: a.URL, schema: a.Schema, session: a.Session}, drain: a.Drain,
		failing: failing{share: a.Drain.Fail}, orders: orders, out: json.NewEncoder(out),
	}
	return w.run(ctx)
}

// workers are the workers of one process.
type workers struct {
	lab     *lab
	drain   Drain
	failing failing
	done    atomic.Int64
	orders  *json.Decoder
	out     *json.Encoder
}

func (w *workers) run(ctx context.Context) error {
	s, err := openStore(w.lab)
	if err != nil {
		return err
	}
	s.options.Concurrency = w.drain.Concurrency
	pool, err := w.lab.pool(ctx, w.drain.Workers+1)
	if err != nil {
		return err
	}
	defer pool.Close()
	runners, err := hire(s, pool, w.drain.Workers, w.handle)
	if err != nil {
		return err
	}
	if err := w.out.Encode(w.report()); err != nil {
		return err
	}
	var begin string
	if err := w.orders.Decode(&begin); err != nil {
		return fmt.Errorf("the process that started this has ended: %w", err)
	}
	return w.work(ctx, runners)
}

func (w *workers) handle(_ int64, attempt int) error {
	if err := w.failing.attempt(attempt); err != nil {
		return err
	}
	w.done.Add(1)
	return nil
}

func (w *workers) report() report {
	return report{Done: w.done.Load(), Attempts: w.failing.started.Load()}
}

func (w *workers) work(ctx context.Context, runners []runner) error {
	cpu, memory := measure.ClientCPU(), watchMemory(context.WithoutCancel(ctx))
	crew := start(ctx, runners...)
	err := w.tellUntilEnd(ctx, crew)
	if haltErr := crew.halt(); err == nil {
		err = haltErr
	}
	last := w.report()
	last.Settled, last.CPU, last.Memory = true, measure.ClientCPU()-cpu, memory.stop()
	if err != nil {
		return err
	}
	return w.out.Encode(last)
}

// reportEvery is short compared with any drain whose speed matters: the measured time lasts until the last report.
const reportEvery = 5 * time.Millisecond

// tellUntilEnd reports changes until standard input ends.
func (w *workers) tellUntilEnd(ctx context.Context, crew *crew) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.orders.Decode(new(string)) // returns at the end of the input: no further order comes
	}()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for told := w.report(); ; {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ErrInterrupted
		case <-crew.ended.Done():
			return nil // halt returns its error
		case <-tick.C:
		}
		if now := w.report(); now != told {
			told = now
			if err := w.out.Encode(now); err != nil {
				return err
			}
		}
	}
}
