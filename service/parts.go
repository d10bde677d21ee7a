package service

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
)

// A member is a part of a service, from when it is added until it has ended.
type member struct {
	part   Part
	works  bool // it has been ready: when it ends by itself, the service does
	leaves bool // it is being removed
	stop   context.CancelFunc
	ended  chan struct{} // nil: it has not been started
	err    error         // once it has ended
}

var errStopping = errors.New("txwork: the service stops or has stopped")

// Add adds a part to a service, which may be running: the part is started, and Add returns when all its workers claim.
// The others notice nothing, and there are no more connections than before. Before Run, Add is what New does with its
// parts.
//
// An error means that the part is not in the service and does not run: it serves what another part serves or one that
// is still stopping, its tables or rights are not what it needs, or it has ended by itself before it claimed. Such an
// end does not stop the service. A database that is away is waited for until ctx ends, which is then the error. When
// ctx ends after Add has returned, that means nothing to the part.
//
// A part with a table of its own has the reaper begin anew, over that table, too, and it goes on maintaining the table
// when the part has been removed.
func (s *Service) Add(ctx context.Context, p Part) error {
	if err := s.checkNew(ctx, p); err != nil {
		return err
	}
	m, err := s.enter(p)
	if err != nil || m.ended == nil {
		return err
	}
	if err := s.awaitReady(ctx, m); err != nil {
		return err
	}
	s.tell(ctx, "part added", p)
	return nil
}

// Remove stops a part and takes it out of a running service: it claims no more, returns rows that no handler has begun,
// waits for running handlers up to its ShutdownTimeout, settles what they have done, and ends. Remove returns then,
// with the part's own error: it names handlers that did not stop in time, whose rows stay claimed until their lease
// ends. The other parts notice nothing. The service goes on, also without any part.
//
// When ctx ends earlier, Remove returns its error, and the part goes on stopping. What it serves can be added again, as
// a new part, when it has ended. A part that is not in the service is refused.
func (s *Service) Remove(ctx context.Context, p Part) error {
	m, err := s.dismiss(p)
	if err != nil || m.ended == nil {
		return err
	}
	select {
	case <-m.ended:
		return m.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkNew checks a part that is to be added while the service runs. Run checks the others.
func (s *Service) checkNew(ctx context.Context, p Part) error {
	s.mu.Lock()
	began, err := s.phase > phaseNew, s.admits(p)
	s.mu.Unlock()
	if err != nil || !began {
		return err
	}
	if err := s.awaitDatabase(ctx, tablesOf(p)); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// admits tells why a part cannot be added.
func (s *Service) admits(p Part) error {
	if s.phase >= phaseStopping {
		return errStopping
	}
	if isNil(p) {
		return validate.Errorf("part", "is nil")
	}
	if queue, both := twice(queues(p)); both {
		return validate.Errorf("part", "serves %s twice", queue)
	}
	for _, m := range s.members {
		if queue, both := twice(queues(m.part, p)); both && m.leaves {
			return validate.Errorf("part", "serves %s, as another does that is still stopping", queue)
		} else if both {
			return validate.Errorf("part", "serves %s, as another does: give that one more Concurrency", queue)
		}
	}
	return nil
}

// enter makes a part a member, and starts it where the service runs.
func (s *Service) enter(p Part) (*member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admits(p); err != nil {
		return nil, err
	}
	for _, w := range p.Workers() {
		if err := w.Join(s.runtime); err != nil {
			return nil, err
		}
	}
	m := &member{part: p}
	s.members = append(s.members, m)
	s.learn(tablesOf(p))
	if s.phase == phaseRunning {
		s.start(m)
	}
	return m, nil
}

// learn has the tables maintained.
func (s *Service) learn(tables []*workqueue.Table) {
	before := len(s.tables)
	s.tables = merge(s.tables, tables)
	if len(s.tables) > before && s.retable != nil {
		s.retable()
	}
}

// start runs a member.
func (s *Service) start(m *member) {
	ctx, stop := context.WithCancel(s.running)
	m.stop, m.ended = stop, make(chan struct{})
	s.parts.Go(func() {
		defer stop()
		err := m.part.Run(ctx)
		if s.end(m, err) {
			s.tell(ctx, "part removed", m.part, slog.Any("error", err))
		}
	})
}

// end notes that a member has ended, and whether it was removed. Where nobody has asked for it, that is the end of all:
// half a service is hard to notice.
func (s *Service) end(m *member, err error) (removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.err = err
	close(m.ended)
	switch {
	case m.leaves:
		s.forget(m)
	case m.works:
		s.stop()
	}
	return m.leaves
}

func (s *Service) forget(m *member) {
	s.members = slices.DeleteFunc(s.members, func(o *member) bool { return o == m })
}

// readyEvery is how often Add looks whether a part claims.
const readyEvery = 5 * time.Millisecond

// awaitReady waits until a member claims. One that does not is removed.
func (s *Service) awaitReady(ctx context.Context, m *member) error {
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-m.ended:
			return s.neverReady(m)
		case <-ctx.Done():
			m.stop()
			<-m.ended
			return errors.Join(context.Cause(ctx), s.neverReady(m))
		case <-ticker.C:
			if s.settleIn(m) {
				return nil
			}
		}
	}
}

// settleIn makes a member one on which the service depends, once it claims.
func (s *Service) settleIn(m *member) bool {
	if each(m.part.Workers(), (*workqueue.Worker).Ready) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-m.ended:
		return false
	default:
		m.works = true
		return true
	}
}

// neverReady is the error of a part that has ended before it claimed.
func (s *Service) neverReady(m *member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(m)
	switch {
	case m.err != nil:
		return m.err
	case s.phase >= phaseStopping || s.running.Err() != nil:
		return errStopping
	}
	return errors.New("txwork: the part has ended before it claimed")
}

// dismiss takes a part out, and stops it where it runs.
func (s *Service) dismiss(p Part) (*member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.members, func(m *member) bool { return same(m.part, p) })
	if i < 0 {
		return nil, validate.Errorf("part", "is not in the service")
	}
	m := s.members[i]
	if m.ended == nil {
		s.forget(m)
		return m, nil
	}
	m.leaves = true
	m.stop()
	return m, nil
}

// workers are those of the members that some condition holds for.
func (s *Service) workers(of func(*member) bool) (all []*workqueue.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if of(m) {
			all = append(all, m.part.Workers()...)
		}
	}
	return all
}

func (s *Service) tell(ctx context.Context, what string, p Part, more ...slog.Attr) {
	s.options.Logger.LogAttrs(ctx, slog.LevelInfo, what, append(more, slog.Any("serves", describe(p.Workers())))...)
}

// same tells whether two parts are one.
func same(a, b Part) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

func isNil(p Part) bool {
	v := reflect.ValueOf(p)
	return p == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// tablesOf are a part's tables, each once.
func tablesOf(p Part) []*workqueue.Table { return merge(nil, p.Tables()) }

// merge adds the tables that are missing.
func merge(tables, more []*workqueue.Table) []*workqueue.Table {
	for _, t := range more {
		if !slices.ContainsFunc(tables, func(o *workqueue.Table) bool { return o.Name() == t.Name() }) {
			tables = append(tables, t)
		}
	}
	return tables
}
