package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
)

// The rates at which an announcer wakes up and falls asleep. On a disk that takes 10 ms to flush, only 100 transactions
// a second can notify, so an announcer wakes up well below that rate.
const (
	announceAbove  = 30 // notifications a second, each from a different session than the one before
	announceWindow = 500 * time.Millisecond
	sleepBelow     = 15 // looks a second that found something
	sleepWindow    = 2 * time.Second
)

// Bounds of the pause before an announcer tries again after it failed or found another one awake.
const (
	minAnnouncerPause = time.Second
	maxAnnouncerPause = 10 * time.Second
)

// lingering is how long a session whose connection broke may keep its lock. It is longer than the server lets the
// session be idle or run a statement, see announcerSettings.
const lingering = 5 * time.Second

// An announcer notifies on behalf of producers at high rates. NOTIFY takes one lock for all committing transactions of
// the server and keeps it until the commit is on disk, so transactions that notify commit one after the other. While an
// announcer is awake, producers are silent; it looks for their rows every few milliseconds, and notifies from a session
// whose commits wait for no disk.
//
// Each listener counts notifications. At more than some tens a second, its announcer takes the lock that tells
// producers to be silent, unless another announcer has it; at lower rates it releases the lock. It has a connection
// only while it is awake. When that session ends, its lock is released, and the server ends a session that has been
// idle for a second. [announce.Table.Must] is the producers' side of the protocol, and docs/model/announcer.pml its
// model.
//
// An announcer that cannot look, because its role lacks a right or its version does not fit the schema, stands aside
// for a while, so that another one can.
//
// One goroutine calls heard, and another one calls run.
type announcer struct {
	table   *Table
	connect func(context.Context) (*pgx.Conn, error)
	busy    chan struct{}

	// Used by heard.
	last   uint32 // the session that notified last
	window time.Time
	count  int

	// unannounced says that a session that broke may have left rows unannounced; broke is when it broke.
	unannounced bool
	broke       time.Time

	aside  time.Time // until when it stands aside
	warned bool      // it has said so
}

func newAnnouncer(table *Table, connect func(context.Context) (*pgx.Conn, error)) *announcer {
	return &announcer{table: table, connect: connect, busy: make(chan struct{}, 1)}
}

// heard counts a notification. It counts those of one session in a row only once: they do not compete for the lock, and
// another announcer is such a session.
func (a *announcer) heard(session uint32, now time.Time) {
	if session == a.last {
		return
	}
	a.last = session
	if now.Sub(a.window) > announceWindow {
		a.window, a.count = now, 0
	}
	a.count++
	if a.count > int(announceAbove*announceWindow/time.Second) {
		a.count = 0
		select {
		case a.busy <- struct{}{}:
		default:
		}
	}
}

// run announces whenever the rate asks for it, until ctx is cancelled.
func (a *announcer) run(ctx context.Context) {
	defer a.leave(ctx)
	pause := minAnnouncerPause
	for {
		if !a.unannounced {
			select {
			case <-ctx.Done():
				return
			case <-a.busy:
			}
			if time.Now().Before(a.aside) {
				continue
			}
		}
		served, err := a.serve(ctx)
		select {
		case <-a.busy: // asked for while it was awake
		default:
		}
		if served {
			pause = minAnnouncerPause
			if err == nil {
				continue
			}
		}
		if err != nil && ctx.Err() == nil {
			a.log(ctx, "announcer failed", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !served {
			pause = min(2*pause, maxAnnouncerPause)
		}
	}
}

// leave announces what is owed at the end: nobody comes back for it, and the next announcer may wake much later.
func (a *announcer) leave(ctx context.Context) {
	if !a.unannounced {
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), announcerCallLimit)
	defer cancel()
	conn, err := a.connect(limited)
	if err == nil {
		defer closeSoon(ctx, conn)
		err = (&announcing{announcer: a, conn: conn, blind: true}).fallAsleep(ctx)
	}
	if err != nil {
		a.log(ctx, "announcer failed, and leaves rows to the next poll", slog.Any("error", err))
	}
}

// serve announces over a connection of its own until the rate falls. It reports whether it was awake: another announcer
// may have the lock.
func (a *announcer) serve(ctx context.Context) (served bool, err error) {
	defer contain.Recover(&err)
	conn, err := a.connect(ctx)
	if err != nil {
		return false, err
	}
	defer closeSoon(ctx, conn)
	d := &announcing{announcer: a, conn: conn}
	taken, err := d.begin(ctx)
	switch {
	case a.standsAside(ctx, err):
		if !a.unannounced {
			return false, nil
		}
		d.blind = true
		err = d.fallAsleep(ctx)
		a.unannounced = err != nil
		return false, err
	case err != nil || !taken:
		// The announcer that has the lock announced what was owed when it took the lock. The exception is our own
		// broken session: the server may notice the break later than we did.
		a.unannounced = a.unannounced && (err != nil || time.Since(a.broke) < lingering)
		return false, err
	}
	a.unannounced = true
	a.log(ctx, "announcer awake")
	err = d.announceWhileBusy(ctx)
	if d.blind = a.standsAside(ctx, err); d.blind || err == nil {
		err = d.fallAsleep(ctx)
	}
	a.unannounced, a.broke = err != nil, time.Now()
	a.warned = a.warned && d.blind
	if err == nil {
		a.log(ctx, "announcer asleep", slog.Int("looks", d.looks), slog.Int("announcements", d.sent))
	}
	return true, err
}

// unfitFor is how long a process that could not announce, fold or sweep leaves that to other processes, which may have
// the privileges that it lacks.
const unfitFor = time.Minute

// standsAside reports whether an error may be this process's own. It then does not stand for a while, and says why,
// once until it has announced again.
func (a *announcer) standsAside(ctx context.Context, err error) bool {
	if !postgres.IsOwn(err) && !errors.Is(err, ErrSession) {
		return false
	}
	a.aside = time.Now().Add(unfitFor)
	if !a.warned {
		a.warned = true
		a.table.telemetry.Log(ctx, slog.LevelWarn, "announcer stands aside, because it cannot look for rows: "+
			"other processes announce", slog.String("table", a.table.Name()), slog.Any("error", err),
			slog.Duration("stands_again_in", unfitFor))
	}
	return true
}

func closeSoon(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn.Close(ctx)
}

func (a *announcer) log(ctx context.Context, what string, more ...slog.Attr) {
	a.table.telemetry.Log(ctx, slog.LevelDebug, what, more...)
}
