package service

import (
	"errors"
	"io"
	"net/http"

	"github.com/txwork/txwork/workqueue"
)

// Ready returns nil while every worker of the service claims, and otherwise an error with the reasons of each worker. A
// part that is being added or removed does not count.
func (s *Service) Ready() error {
	switch s.at() {
	case phaseNew:
		return errors.New("not started")
	case phaseStopping:
		return errors.New("stopping")
	case phaseEnded:
		return errors.New("ended")
	case phaseStarting:
		return s.each((*workqueue.Worker).Ready, func(*member) bool { return true })
	}
	return s.each((*workqueue.Worker).Ready, func(m *member) bool { return m.works && !m.leaves })
}

// Alive returns an error if only a restart helps: Run has ended, or a worker is stuck.
func (s *Service) Alive() error {
	if s.at() == phaseEnded {
		return errors.New("ended")
	}
	return s.each((*workqueue.Worker).Alive, func(*member) bool { return true })
}

func (s *Service) at() phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseRunning && s.running.Err() != nil {
		return phaseStopping // which Run is about to note
	}
	return s.phase
}

func (s *Service) each(state func(*workqueue.Worker) error, of func(*member) bool) error {
	return each(s.workers(of), state)
}

func each(workers []*workqueue.Worker, state func(*workqueue.Worker) error) error {
	var errs []error
	for _, w := range workers {
		errs = append(errs, state(w))
	}
	return errors.Join(errs...)
}

// Handler answers GET /readyz and /livez, see the package documentation. Its answers name tables, and no other details
// of the database. Serve it where only your probes can reach it.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", probe(s.Ready))
	mux.HandleFunc("GET /livez", probe(s.Alive))
	return mux
}

func probe(state func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		answer := "ok"
		if err := state(); err != nil {
			answer = err.Error()
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, answer+"\n")
	}
}
