//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// as replaces a random worker by a different one while do runs. It is an error if that worker was given no row, since
// it then tested nothing.
func (l *lab) as(ctx context.Context, random *rand.Rand, change func(*setup), program []string,
	do func() error) (name string, err error) {
	return l.asOneOf(ctx, random, l.crew.workers(), change, program, do)
}

// asOneOf replaces one of some workers, see as.
func (l *lab) asOneOf(ctx context.Context, random *rand.Rand, slots []*slot, change func(*setup), program []string,
	do func() error) (name string, err error) {
	s := slots[random.IntN(len(slots))]
	if err := s.become(ctx, change, program); err != nil {
		return s.name, err
	}
	if err = l.employ(ctx, random, s); err == nil {
		err = errors.Join(do(), s.worked())
	}
	return s.name, errors.Join(err, s.become(ctx, nil, nil))
}

// employ writes rows until the slot's process has been given some. On a busy machine that takes a while.
func (l *lab) employ(ctx context.Context, random *rand.Rand, s *slot) error {
	h := &holding{lab: l, random: random, pool: l.admin}
	for end := time.Now().Add(employLimit); s.worked() != nil && time.Now().Before(end); time.Sleep(employEvery) {
		if _, err := h.commit(ctx, somethingToDo); err != nil {
			return err
		}
	}
	return s.worked()
}

const (
	employLimit = time.Minute
	employEvery = 200 * time.Millisecond
)

// become ends the slot's process as a deployment does, and returns when the changed process is running. Nil arguments
// restore the original one.
func (s *slot) become(ctx context.Context, change func(*setup), program []string) error {
	s.mu.Lock()
	s.change, s.instead = change, program
	m := s.current
	s.mu.Unlock()
	m.signal(syscall.SIGTERM)
	var late error
	select {
	case <-m.ended:
	case <-time.After(stopLimit):
		late = fmt.Errorf("%s did not stop within %v", m.app, stopLimit)
		m.signal(syscall.SIGKILL)
		<-m.ended
	}
	_, err := s.begun(ctx)
	return errors.Join(late, err)
}

// worked tells whether the slot's process has been given rows.
func (s *slot) worked() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	journal := filepath.Join(s.dir, fmt.Sprintf("%s.%d.journal", s.name, s.number))
	if info, err := os.Stat(journal); err != nil || info.Size() == 0 {
		return fmt.Errorf("%s was given nothing to do meanwhile", s.current.app)
	}
	return nil
}

// poisoned tells whether a handler has ended the process on purpose. It may be called only after the process has ended.
func (m *member) poisoned() bool {
	return m.cmd.ProcessState.ExitCode() == exitCode || strings.Contains(m.stderr.String(), childPanic)
}

// autopsy reports a process that ended with a panic, unless its handler panicked on purpose. Without the report nobody
// would notice, since another process takes its place.
func (s *slot) autopsy(m *member) {
	said := m.stderr.String()
	if !strings.Contains(said, "panic: ") && !strings.Contains(said, "fatal error: ") || m.poisoned() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panics = append(s.panics, fmt.Sprintf("%s ended by itself: %s", m.app, said))
}
