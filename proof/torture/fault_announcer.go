//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// Faults of announcers strike a process that announces in the middle of one of its steps: it stops when it has sent the
// step's statement. No other process is struck, so others find by a poll what it leaves behind.

// A step is a point, with what makes an announcer reach it.
type step struct {
	point string
	when  stepWhen
}

type stepWhen uint8

const (
	inBurst stepWhen = iota
	beforeBurst
	afterBurst
)

var steps = []step{
	{pointTakes, beforeBurst}, {pointTakesOver, beforeBurst},
	{pointLooks, inBurst}, {pointLooksNote, inBurst}, {pointSamples, inBurst}, {pointAnnounces, inBurst},
	{pointReleases, afterBurst}, {pointFades, afterBurst}, {pointLast, afterBurst},
}

const (
	// stepLimit is how long an announcer may take to reach a step. It reaches some steps only if a producer is silent
	// then.
	stepLimit = 8 * time.Second
	// stopped is how long a process may take to stop after it has reported that it will.
	stopped = 100 * time.Millisecond
	// onAndOn is how long a burst continues after the strike.
	onAndOn = 2 * time.Second
)

// strikeAnnouncer starts a burst, strikes a process whose announcer has stopped in the middle of a step, and waits
// until everything that was written has ended. If only is nil, any process that is awake may be struck.
func (l *lab) strikeAnnouncer(ctx context.Context, random *rand.Rand, only *member, do func(*member) (string,
	error)) (detail string, err error) {
	err = l.inBursts(ctx, random, l.url, func(w *writers) error {
		at := l.nextStep(random)
		m, err := w.comeTo(ctx, at, only)
		if err != nil {
			return err
		}
		defer l.crew.resume(nil)
		l.hit = time.Now()
		what, err := do(m)
		detail = fmt.Sprintf("%s that %s %s", m.app, at.point, what)
		if err == nil {
			w.burst(ctx)
			time.Sleep(onAndOn)
		}
		return err
	})
	return detail, err
}

// nextStep draws without replacement, so that each step has its turn, whichever fault strikes there.
func (l *lab) nextStep(random *rand.Rand) step {
	if len(l.steps) == 0 {
		l.steps = slices.Clone(steps)
		random.Shuffle(len(l.steps), func(i, j int) { l.steps[i], l.steps[j] = l.steps[j], l.steps[i] })
	}
	next := l.steps[0]
	l.steps = l.steps[1:]
	return next
}

// comeTo returns a process that has stopped at the step.
func (w *writers) comeTo(ctx context.Context, at step, only *member) (*member, error) {
	candidates := []*member{only}
	if only == nil {
		candidates = w.crew.presentWorkers()
	} else {
		defer w.hush(only)()
	}
	if at.when != beforeBurst {
		w.burst(ctx)
		a, err := w.awaitAwake(ctx, func(a awake) bool {
			return (only == nil || a.app == only.app) && (at.point != pointLooksNote ||
				slices.Contains(folding, a.table))
		})
		if err != nil {
			return nil, err
		}
		if candidates = []*member{w.crew.member(a.app)}; candidates[0] == nil {
			return nil, skip("%s has ended", a.app)
		}
	}
	for _, m := range candidates {
		m.forget()
		m.tell(order{at.point, signalStop})
	}
	if at.when == afterBurst {
		w.lull()
	} else {
		w.burst(ctx)
	}
	m, err := firstReached(ctx, candidates, at.point)
	for _, c := range candidates {
		c.tell(order{pointNone, signalStop})
	}
	time.Sleep(stopped)
	if only == nil {
		w.crew.resume(m) // several may have stopped there at the same time
	}
	return m, err
}

// hush stops all other workers, so that only this one receives what would wake its announcer.
func (w *writers) hush(only *member) (end func()) {
	for _, m := range w.crew.presentWorkers() {
		if m != only {
			m.signal(syscall.SIGSTOP)
		}
	}
	return func() { w.crew.resume(only) }
}

func firstReached(ctx context.Context, all []*member, point string) (*member, error) {
	for end := time.Now().Add(stepLimit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		for _, m := range all {
			select {
			case at := <-m.reached:
				if at == point {
					return m, nil
				}
			default:
			}
		}
	}
	return nil, errors.Join(ctx.Err(), skip("nobody %s", point))
}

// forget drops earlier reports of the process about points.
func (m *member) forget() {
	for {
		select {
		case <-m.reached:
		default:
			return
		}
	}
}

// announcerKill kills the announcer's process, or makes the server end its session.
type announcerKill struct {
	plain
	inQuiet
}

func (announcerKill) harms() harm { return harmsAnnouncers }

func (announcerKill) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	return l.strikeAnnouncer(ctx, random, nil, func(m *member) (string, error) {
		if random.IntN(2) == 0 {
			if n, err := l.endAnnouncers(ctx, m.app); err != nil || n > 0 {
				return "loses its session", err
			}
		}
		m.signal(syscall.SIGKILL)
		<-m.ended
		return "is killed", nil
	})
}

// endAnnouncers ends the sessions of a process's announcers.
func (l *lab) endAnnouncers(ctx context.Context, app string) (n int, err error) {
	all, err := l.awake(ctx)
	for _, a := range all {
		if a.app == app && err == nil {
			_, err = l.admin.Exec(ctx, "SELECT pg_terminate_backend($1)", a.pid)
			n++
		}
	}
	return n, err
}

// announcerFreeze stops the announcer's process for a shorter or longer time than the server keeps its session.
type announcerFreeze struct {
	plain
	inQuiet
}

func (announcerFreeze) harms() harm { return harmsAnnouncers }

const longestFreeze = 3 * time.Second

func (announcerFreeze) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	return l.strikeAnnouncer(ctx, random, nil, func(*member) (string, error) {
		still := time.Duration(random.Int64N(int64(longestFreeze)))
		time.Sleep(still)
		return fmt.Sprintf("stands still for %v", still.Round(time.Millisecond)), nil
	})
}

// announcerBlackHole drops all traffic of a process's listeners and announcers in both directions, without closing a
// connection.
type announcerBlackHole struct {
	proxied
	inQuiet
}

func (announcerBlackHole) harms() harm { return harmsAnnouncers }

func (b *announcerBlackHole) strike(ctx context.Context, l *lab, random *rand.Rand) (detail string, err error) {
	address, err := b.open(l)
	if err != nil {
		return "", err
	}
	defer b.proxy.Stop()
	return l.listeningBy(ctx, random, func(config *setup) { config.ListenURL = address }, func(m *member) (string,
		error) {
		defer b.proxy.Toxics.ResetToxics(ctx)
		return l.strikeAnnouncer(ctx, random, m, func(*member) (string, error) {
			for _, stream := range []string{"upstream", "downstream"} {
				if err := b.poison(stream, "timeout", stream, 1); err != nil {
					return "", err
				}
			}
			m.signal(syscall.SIGCONT)
			time.Sleep(episode)
			b.proxy.Toxics.ResetToxics(ctx)
			return "is out of reach", nil
		})
	})
}

// listeningBy changes a worker's setup while do runs.
func (l *lab) listeningBy(ctx context.Context, random *rand.Rand, change func(*setup), do func(*member) (string,
	error)) (detail string, err error) {
	slots := l.crew.of(roleWorker)
	s := slots[random.IntN(len(slots))]
	err = s.become(ctx, change, nil)
	if err == nil {
		detail, err = do(s.present())
	}
	return detail, errors.Join(err, s.become(ctx, nil, nil))
}

// announcerPooler makes a worker listen through PgBouncer in session mode. It hears what wakes announcers up, but must
// not become an announcer itself, because nobody knows what the pooler does with the session that holds its lock.
type announcerPooler struct {
	pgbouncer
	inQuiet
}

func (announcerPooler) harms() harm { return harmsAnnouncers }

func (p *announcerPooler) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	url, stop, err := p.pool(ctx, l, "session")
	if err != nil {
		return "", err
	}
	defer stop()
	return l.listeningBy(ctx, random, func(config *setup) { config.ListenURL = url }, func(m *member) (string, error) {
		return m.app + " listens through a pooler", l.inBursts(ctx, random, l.url, func(w *writers) error {
			l.hit = time.Now()
			w.burst(ctx)
			if _, err := l.awaitAwake(ctx, nil); err != nil {
				return err
			}
			defer w.hush(m)() // no other process takes the lock before it
			if a, err := l.awaitAwake(ctx, func(a awake) bool { return a.app == m.app }); err == nil {
				l.fail("%s is awake for %s, and its session is a pooler's", a.app, a.table)
			}
			return nil
		})
	})
}
