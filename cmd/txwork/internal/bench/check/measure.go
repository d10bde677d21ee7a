package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// A measurement is all runs of both sides.
type measurement struct {
	sides    [2]side
	cells    []cell
	rounds   int
	progress io.Writer

	runs   map[runOf][]map[string]float64
	absent map[runOf]string // why it is not run again
	count  int
}

// runOf identifies the runs of one side and one cell.
type runOf struct{ cell, side int }

// turns is the order of the sides in a round: A B B A, so that a drift affects both alike.
var turns = [...]int{0, 1, 1, 0}

// run runs every cell in every round. A failing run does not stop the others, but an interruption does.
func (m *measurement) run(ctx context.Context) error {
	m.runs, m.absent = map[runOf][]map[string]float64{}, map[runOf]string{}
	var errs []error
	for range m.rounds {
		for i := range m.cells {
			for _, s := range turns {
				if err := m.one(ctx, runOf{i, s}); err != nil {
					errs = append(errs, err)
				}
				if ctx.Err() != nil {
					return errors.Join(errs...)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// one runs one side of a cell once. It returns an error only if the whole measurement is to fail.
func (m *measurement) one(ctx context.Context, r runOf) error {
	m.count++
	if m.absent[r] != "" {
		return nil
	}
	c, s := m.cells[r.cell], m.sides[r.side]
	begun := time.Now()
	numbers, err := s.once(ctx, c)
	if ctx.Err() != nil {
		return nil
	}
	m.say(r, numbers, err, time.Since(begun))
	var lost *lostError
	switch {
	case err == nil:
		m.runs[r] = append(m.runs[r], numbers)
		return nil
	case errors.As(err, &lost):
		return fmt.Errorf("%s, %s: %w", s.name, c.name(), err)
	}
	m.absent[r] = err.Error()
	var absent *absentError
	if r.side == 0 || errors.As(err, &absent) {
		return nil // the base may lack the workload, or a fix that it needs
	}
	return fmt.Errorf("%s, %s: %w", s.name, c.name(), err)
}

// say reports a run that has ended.
func (m *measurement) say(r runOf, numbers map[string]float64, err error, took time.Duration) {
	c := m.cells[r.cell]
	first := c.metrics[0]
	outcome := "no " + first.title
	if n, ok := numbers[first.path]; ok {
		outcome = first.title + " " + figure(n)
	}
	if err != nil {
		outcome = "left out: " + err.Error()
	}
	total := m.rounds * len(m.cells) * len(turns)
	fmt.Fprintf(m.progress, "%3d/%d  %-12s  %s: %s (%.0f s)\n", m.count, total, m.sides[r.side].name, c.name(), outcome,
		took.Seconds())
}
