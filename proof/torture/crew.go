//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/txwork/txwork/internal/spawn"
)

// A crew is the run's processes. A process that ends is replaced, however it ends.
type crew struct {
	spawner *spawn.Spawner
	slots   []*slot
	running sync.WaitGroup
}

// A slot is a position in the crew that is held by one process after another.
type slot struct {
	name    string
	program []string
	base    setup
	dir     string // of the journals
	spawner *spawn.Spawner

	mu      sync.Mutex
	change  func(*setup) // how the next process's setup differs
	instead []string     // what the next process runs instead of program
	current *member
	number  int
	deaths  int
	panics  []string
	closing atomic.Bool
}

// A member is one process.
type member struct {
	app     string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	reached chan string // points that it reached
	frozen  chan string // statements after which a session was frozen
	ready   chan struct{}
	serving chan struct{}
	ended   chan struct{}
	stderr  bytes.Buffer
	err     error // how it ended; set before ended is closed
}

func newCrew() *crew { return &crew{spawner: spawn.New()} }

// add adds a slot and starts its first process.
func (c *crew) add(name string, program []string, dir string, base setup) {
	s := &slot{name: name, program: program, base: base, dir: dir, spawner: c.spawner}
	c.slots = append(c.slots, s)
	c.running.Go(s.run)
}

// respawnPause keeps a process that cannot start from being restarted in a busy loop.
const respawnPause = 50 * time.Millisecond

func (s *slot) run() {
	for !s.closing.Load() {
		m, err := s.start()
		if err == nil {
			<-m.ended
		}
		s.mu.Lock()
		s.deaths++
		s.mu.Unlock()
		if err == nil {
			s.autopsy(m)
		}
		time.Sleep(respawnPause)
	}
}

var errClosing = errors.New("the run is over")

func (s *slot) start() (*member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return nil, errClosing
	}
	s.number++
	config := s.base
	config.App = fmt.Sprintf("torture %s.%d", s.name, s.number)
	config.Journal = filepath.Join(s.dir, fmt.Sprintf("%s.%d.journal", s.name, s.number))
	program := s.program
	if s.change != nil {
		s.change(&config)
	}
	if s.instead != nil {
		program = s.instead
	}
	m := newMember(config.App, program)
	if err := m.start(s.spawner, config); err != nil {
		return nil, err
	}
	s.current = m
	return m, nil
}

func newMember(app string, program []string) *member {
	return &member{
		app: app, cmd: exec.Command(program[0], program[1:]...),
		reached: make(chan string, len(points)), frozen: make(chan string, 1), ready: make(chan struct{}),
		serving: make(chan struct{}), ended: make(chan struct{}),
	}
}

func (m *member) start(s *spawn.Spawner, config setup) error {
	m.cmd.SysProcAttr = memberAttributes()
	m.cmd.Stderr = &m.stderr
	stdin, err := m.cmd.StdinPipe()
	if err != nil {
		return err
	}
	m.stdin = stdin
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.Start(m.cmd); err != nil {
		return err
	}
	m.tell(config)
	go func() {
		m.listen(stdout)
		m.err = m.cmd.Wait()
		m.stdin.Close()
		close(m.ended)
	}()
	return nil
}

func (m *member) listen(stdout io.Reader) {
	decoder := json.NewDecoder(stdout)
	var r report
	for decoder.Decode(&r) == nil {
		switch r.What {
		case isReady:
			close(m.ready)
		case isServing:
			close(m.serving)
		case isFrozen:
			m.frozen <- r.Statement
		case isReached:
			select {
			case m.reached <- r.Point:
			default: // no strike waits for it any more
			}
		}
	}
}

// tell sends a line. An error is ignored here: a member that is gone is noticed by its end.
func (m *member) tell(what any) {
	if encoded, err := json.Marshal(what); err == nil {
		_, _ = m.stdin.Write(append(encoded, '\n'))
	}
}

func (m *member) signal(sig syscall.Signal) { _ = m.cmd.Process.Signal(sig) }

// workers returns the slots of workers.
func (c *crew) workers() []*slot { return c.of(roleWorker, roleSQLWorker) }

// of returns the slots of some roles.
func (c *crew) of(roles ...string) (slots []*slot) {
	for _, s := range c.slots {
		if slices.Contains(roles, s.base.Role) {
			slots = append(slots, s)
		}
	}
	return slots
}

// presentWorkers returns the running worker processes.
func (c *crew) presentWorkers() (all []*member) {
	for _, s := range c.workers() {
		if m := s.present(); m != nil {
			all = append(all, m)
		}
	}
	return all
}

// resume continues all stopped workers but one.
func (c *crew) resume(but *member) {
	for _, m := range c.presentWorkers() {
		if m != but {
			m.signal(syscall.SIGCONT)
		}
	}
}

// member returns the worker process of that name, if it is running.
func (c *crew) member(app string) *member {
	for _, m := range c.presentWorkers() {
		if m.app == app {
			return m
		}
	}
	return nil
}

// pick returns a random worker that has started.
func (c *crew) pick(ctx context.Context, random *rand.Rand) (*slot, *member, error) {
	slots := c.workers()
	s := slots[random.IntN(len(slots))]
	m, err := s.begun(ctx)
	return s, m, err
}

// begunLimit bounds how long a process may take to start, which is long on a machine that is busy with the faults.
const begunLimit = 3 * time.Minute

// begun waits until the slot's process reacts to signals.
func (s *slot) begun(ctx context.Context) (*member, error) {
	return s.await(ctx, func(m *member) <-chan struct{} { return m.ready })
}

// serves waits until the slot's process, a worker, has asked all tables for rows.
func (s *slot) serves(ctx context.Context) error {
	_, err := s.await(ctx, func(m *member) <-chan struct{} { return m.serving })
	return err
}

// await waits until a channel of the slot's process is closed.
func (s *slot) await(ctx context.Context, event func(*member) <-chan struct{}) (*member, error) {
	ctx, cancel := context.WithTimeout(ctx, begunLimit)
	defer cancel()
	for {
		s.mu.Lock()
		m := s.current
		s.mu.Unlock()
		if m != nil {
			select {
			case <-event(m):
				select {
				case <-m.ended:
				default:
					return m, nil
				}
			case <-m.ended:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s does not start: %w\n%s", s.name, ctx.Err(), s.lastWords())
		case <-time.After(respawnPause):
		}
	}
}

// present is the slot's process.
func (s *slot) present() *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *slot) lastWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return ""
	}
	select {
	case <-s.current.ended:
		return s.current.stderr.String()
	default:
		return ""
	}
}

// stopLimit is longer than a worker's own shutdown timeout and its grace.
const stopLimit = 30 * time.Second

// stop ends all processes in order, as a deployment does, and reports those that did not end as they should.
func (c *crew) stop() (failures []string) {
	for _, s := range c.slots {
		s.closing.Store(true)
		s.mu.Lock()
		if s.current != nil {
			s.current.signal(syscall.SIGCONT)
			s.current.signal(syscall.SIGTERM)
		}
		s.mu.Unlock()
	}
	over := make(chan struct{})
	go func() { c.running.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(stopLimit):
		failures = append(failures, c.kill()...)
		<-over
	}
	for _, s := range c.slots {
		failures = append(failures, s.panics...)
	}
	c.spawner.Close()
	return failures
}

func (c *crew) kill() (killed []string) {
	for _, s := range c.slots {
		s.mu.Lock()
		select {
		case <-s.current.ended:
		default:
			killed = append(killed, fmt.Sprintf("%s did not stop within %v", s.current.app, stopLimit))
			s.current.signal(syscall.SIGKILL)
		}
		s.mu.Unlock()
	}
	return killed
}

// deaths counts the processes that ended before the run did.
func (c *crew) deaths() (n int) {
	for _, s := range c.slots {
		s.mu.Lock()
		n += max(0, s.deaths)
		s.mu.Unlock()
	}
	return n
}
