package service

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A member is a part of a service, from the time when it is added until it has ended.
type member struct {
	part   Part
	works  bool // it has been ready, so the service stops if it ends by itself
	leaves bool // it is being removed
	stop   context.CancelFunc
	ended  chan struct{} // closed when it has ended; nil: not started
	err    error         // its result, once it has ended
}

var errStopping = errors.New("txwork: the service stops or has stopped")

// Add adds a part to a service, which may be running. Then Add starts the part, and returns when all its workers claim.
// The other parts are not affected, and the service needs no more connections than before. Before Run, Add does what
// New does with its parts.
//
// If Add returns an error, the part is not in the service and does not run: another part, which may still be stopping,
// serves the same queue, the part's tables or the role's rights do not suffice, or the part ended by itself before it
// claimed. The service goes on then. While the database is unavailable, Add waits for it until ctx ends, and then
// returns the context's error. Once Add has returned, ctx no longer affects the part.
//
// A part that works, but waits for what somebody has to make, as the relay of a subscription that does not exist
// does, is added, too: its log says for what, and Ready does until it is there.
//
// If the part has a table that is new to the service, the reaper is restarted to maintain that table, too. It goes on
// maintaining it after the part has been removed.
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

// Remove stops a part and removes it from a running service. The part stops claiming, returns rows that no handler has
// begun, waits for running handlers up to its ShutdownTimeout, settles their results, and ends. Remove then returns the
// part's own error, which names handlers that did not stop in time; their rows stay claimed until their lease expires.
// The other parts are not affected. The service goes on, even without any part.
//
// If ctx ends earlier, Remove returns its error, and the part goes on stopping. A new part that serves the same queue
// can be added when the old one has ended. A part that is not in the service is refused.
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

// checkNew checks a part that is added while the service runs. Run checks parts that were added before.
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
	// Run, which waits for the database, too, may find it later. Until then, a part would be started with the others,
	// and an error of this one would end them all.
	select {
	case <-s.started:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// admits returns an error if a part cannot be added.
func (s *Service) admits(p Part) error {
	if s.phase >= phaseStopping {
		return errStopping
	}
	if contain.IsNil(p) {
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

// enter makes a part a member, and starts it if the service is running.
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

// learn adds tables to be maintained, and restarts the reaper if one is new.
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

// end notes that a member has ended, and returns whether it was being removed. If it was not, the whole service stops,
// because half a service is hard to notice.
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

// readyEvery is how often Add checks whether a part claims.
const readyEvery = 5 * time.Millisecond

// awaitReady waits until a member claims. It removes a member that ends first, or does not claim until ctx ends.
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

// claims is Ready for a worker that claims, or will once there is what it waits for.
func claims(w *workqueue.Worker) error {
	err := w.Ready()
	if waits := w.Waits(); waits != nil && errors.Is(err, waits) {
		return nil
	}
	return err
}

// settleIn marks a member as working once it claims: from then on the service stops if the member ends by itself.
func (s *Service) settleIn(m *member) bool {
	if each(m.part.Workers(), claims) != nil {
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

// neverReady removes a member that has ended before it claimed, and returns its error.
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

// dismiss finds the member of a part. It stops a member that runs, and removes one that was not started.
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

// workers returns the workers of the members that satisfy a condition.
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

// same reports whether two parts are identical. Parts of types that cannot be compared never are.
func same(a, b Part) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// tablesOf returns a part's tables without duplicates.
func tablesOf(p Part) []*workqueue.Table { return merge(nil, p.Tables()) }

// merge appends the tables that are missing.
func merge(tables, more []*workqueue.Table) []*workqueue.Table {
	for _, t := range more {
		if !slices.ContainsFunc(tables, func(o *workqueue.Table) bool { return o.Name() == t.Name() }) {
			tables = append(tables, t)
		}
	}
	return tables
}
