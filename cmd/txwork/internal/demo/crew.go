package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/spawn"
)

// maxNotices is more than the members ever send, so that they do not block while no fault is reading.
const maxNotices = 1000

// crewSize is one worker to freeze, one to kill, and one to go on.
const crewSize = 3

// A crew is the group of worker processes. Its methods are for one goroutine, except watch.
type crew struct {
	members []*member
	spawner *spawn.Spawner
	notices chan notice
	over    chan struct{}
	round   int
}

// startCrew starts the workers and returns when all are about to claim. The caller must end the crew, even if there is
// an error.
func startCrew(ctx context.Context, program []string, d *database, show *display) (*crew, error) {
	if len(program) == 0 {
		return nil, errors.New("demo: Options.Worker names no program")
	}
	c := &crew{spawner: spawn.New(), notices: make(chan notice, maxNotices), over: make(chan struct{})}
	for i := range crewSize {
		m := &member{
			name: fmt.Sprintf("worker %d", i+1), cmd: exec.Command(program[0], program[1:]...),
			live: true, ended: make(chan struct{}),
		}
		err := m.start(c.spawner,
			func(e event) { c.pass(notice{m, e}) },
			func(line string) { show.say("%s: %s", m.name, line) })
		if err != nil {
			return c, err
		}
		c.members = append(c.members, m)
		m.tell(setup{Name: m.name, URL: d.url, Schema: d.schema})
	}
	return c, c.awaitReady(ctx)
}

// startLimit is how long a worker may take to connect.
const startLimit = 30 * time.Second

func (c *crew) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the workers did not start within %v",
		startLimit))
	defer cancel()
	watched, stop := context.WithCancelCause(ctx)
	go func() { stop(c.watch(ctx)) }()
	for range c.members {
		if _, err := c.next(watched); err != nil {
			return err
		}
	}
	return nil
}

func (c *crew) pass(n notice) {
	select {
	case c.notices <- n:
	case <-c.over:
	}
}

func (c *crew) next(ctx context.Context) (notice, error) {
	select {
	case n := <-c.notices:
		return n, nil
	case <-ctx.Done():
		return notice{}, context.Cause(ctx)
	}
}

// nextWithin is next, or errQuiet after the given time.
func (c *crew) nextWithin(ctx context.Context, limit time.Duration) (notice, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errQuiet)
	defer cancel()
	return c.next(ctx)
}

// watch returns when ctx ends, or with an error when a member ends without having been dismissed.
func (c *crew) watch(ctx context.Context) error {
	surprise := make(chan *member)
	for _, m := range c.members {
		go func() {
			select {
			case <-m.ended:
			case <-ctx.Done():
				return
			}
			if m.dismissed.Load() {
				return
			}
			select {
			case surprise <- m:
			case <-ctx.Done():
			}
		}()
	}
	select {
	case m := <-surprise:
		return fmt.Errorf("%s ended though nobody asked it to (%s): see its messages above", m.name, m.cmd.ProcessState)
	case <-ctx.Done():
		return nil
	}
}

func (c *crew) live() []*member {
	var live []*member
	for _, m := range c.members {
		if m.live {
			live = append(live, m)
		}
	}
	return live
}

// quietFor is how long to wait for further handlers to stop before looking at those that have.
const quietFor = 100 * time.Millisecond

var errQuiet = errors.New("no member said anything")

// A victim is a member that was caught with handlers in the middle of their transactions.
type victim struct {
	*member
	messages []uuid.UUID // whose handlers are in the middle of their transactions
	claims   []uuid.UUID // those, and messages that wait for a handler
}

// catch returns a live member whose handlers are held in the middle of their transactions. It tells every member to
// hold, opens the gate so that there are messages to hold, and takes the first member that has a claim, of which kept
// decides. Nobody goes on before, so that a message whose claim is lost is held again by whoever claims it next. If all
// that are held have lost their claims, everybody begins again: whoever has claimed these messages since waits for the
// transactions of those that are held, and at some time no handler would be left.
func (c *crew) catch(ctx context.Context, g *gate, kept func([]notice) ([]notice, bool, error)) (victim, error) {
	members := c.live()
	c.hold(members)
	var holding []notice
	for armed := 0; ; {
		n, err := c.nextWithin(ctx, quietFor)
		switch {
		case errors.Is(err, errQuiet):
			if armed < len(members) || len(holding) == 0 {
				continue
			}
			caught, lost, err := kept(holding)
			if err != nil {
				return victim{}, err
			}
			if len(caught) > 0 {
				return c.take(caught), nil
			}
			if lost {
				c.resume(members)
				c.hold(members)
				holding = nil
			}
		case err != nil:
			return victim{}, err
		case n.What == isArmed:
			if armed++; armed == len(members) {
				g.open()
			}
		case n.What == isHolding && n.Round == c.round:
			holding = append(holding, n)
		}
	}
}

// hold begins a round in which the handlers of the members are held.
func (c *crew) hold(members []*member) {
	c.round++
	for _, m := range members {
		m.tell(command{doHold, c.round})
	}
}

// resume lets the handlers of the members go on.
func (c *crew) resume(members []*member) {
	for _, m := range members {
		m.tell(command{Do: doResume})
	}
}

// take makes the first notice's member the victim, and lets the others go on.
func (c *crew) take(caught []notice) (v victim) {
	for _, n := range caught {
		if v.member == nil || v.member == n.from {
			v.member, v.claims = n.from, n.Claims
			v.messages = append(v.messages, n.Message)
		}
	}
	v.live = false
	c.resume(c.live())
	return v
}

// stopLimit is how long a member without work may take to end.
const stopLimit = 10 * time.Second

// dismiss tells the members to stop and waits for them.
func (c *crew) dismiss() error {
	for _, m := range c.members {
		if !m.dismissed.Swap(true) {
			m.tell(command{Do: doStop})
		}
	}
	limit := time.After(stopLimit)
	for _, m := range c.members {
		select {
		case <-m.ended:
		case <-limit:
			return fmt.Errorf("%s did not stop within %v", m.name, stopLimit)
		}
	}
	return nil
}

// end kills all remaining processes.
func (c *crew) end() {
	close(c.over)
	for _, m := range c.members {
		m.kill()
	}
	c.spawner.Close()
}
