package lab

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/txwork/txwork/bench/protocol"
)

// shareWork lets several processes do all jobs together. The time begins with the first job of any of them, so that the
// start of the processes does not count, and ends when the database has no unfinished job.
func (m *measurement) shareWork(ctx context.Context) (w worked, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends processes that still run
	shared := newShare(m.config.Jobs)
	var crew []*process
	for range m.config.Processes {
		p, err := start(ctx, m.entrant.command, protocol.Work, m.config)
		if err != nil {
			return w, first(err, stopAll(crew, &w))
		}
		crew = append(crew, p)
		go shared.follow(p)
	}
	w.seconds, err = m.awaitShared(ctx, shared)
	var countErr error
	w.after, countErr = m.database.counters(ctx)
	return w, first(stopAll(crew, &w), err, countErr)
}

func (m *measurement) awaitShared(ctx context.Context, s *share) (seconds float64, err error) {
	begun, err := s.wait(ctx)
	if err != nil {
		return 0, err
	}
	ended, err := m.database.awaitNone(ctx, m.about.UnfinishedSQL)
	return ended.Sub(begun).Seconds(), err
}

// stopAll stops the processes and adds up their processor time.
func stopAll(crew []*process, w *worked) (err error) {
	for _, p := range crew {
		_ = p.stdin.Close() // all of them at once
	}
	for _, p := range crew {
		cpu, stopErr := p.stop()
		w.cpu += cpu
		err = first(err, stopErr)
	}
	return err
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A share adds up the progress of several processes.
type share struct {
	jobs  int
	all   chan struct{} // closed when all jobs have begun
	ended chan struct{} // closed when a process has ended

	mu    sync.Mutex
	done  int
	begun time.Time // when the first job began
	over  sync.Once
}

func newShare(jobs int) *share {
	return &share{jobs: jobs, all: make(chan struct{}), ended: make(chan struct{})}
}

// follow adds the progress of a process, until its events end.
func (s *share) follow(p *process) {
	told := 0
	for e := range p.events {
		if e.Kind == protocol.Progress {
			s.add(e.Jobs - told)
			told = e.Jobs
		}
	}
	s.over.Do(func() { close(s.ended) })
}

func (s *share) add(jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.done
	s.done += jobs
	if before == 0 {
		s.begun = time.Now()
	}
	if before < s.jobs && s.done >= s.jobs {
		close(s.all)
	}
}

// wait waits until all jobs have begun, and returns the time when the first one did.
func (s *share) wait(ctx context.Context) (begun time.Time, err error) {
	select {
	case <-s.all:
	case <-s.ended:
		err = errEndedEarly
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, err
}

var errEndedEarly = errors.New("a process ended before all jobs had begun")
