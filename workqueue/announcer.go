package workqueue

import (
	"context"
	"log/slog"
	"time"

	"github.com/txwork/txwork/internal/contain"

	"github.com/jackc/pgx/v5"
)

// When an announcer wakes up and falls asleep. A disk that takes 10 ms to flush lets 100 transactions a second notify,
// so the rate at which it wakes up is well below.
const (
	announceAbove  = 30 // notifications a second, each from another session than the one before
	announceWindow = 500 * time.Millisecond
	sleepBelow     = 15 // looks a second that found something
	sleepWindow    = 2 * time.Second
)

// Bounds of the pause after which an announcer that found another one at work tries again.
const (
	minAnnouncerPause = time.Second
	maxAnnouncerPause = 10 * time.Second
)

// lingering is how long a session that broke off may keep its lock: longer than the server lets it be silent or run a
// statement, see announcerSettings.
const lingering = 5 * time.Second

// An announcer notifies on behalf of producers at high rates. NOTIFY takes one lock for all committing transactions of
// the server and keeps it until the commit is on disk, so transactions that notify commit one after the other. While an
// announcer is awake, producers are silent; it looks for their rows every few milliseconds, and notifies from a session
// whose commits wait for no disk.
//
// Each listener counts notifications. Above some tens a second its announcer takes the lock that tells producers to be
// silent, if nobody has it; below, it releases it. It has a connection while it is awake and none otherwise. That
// session's end releases the lock, and the server ends it when it has been idle for a second. [Spec.MustAnnounce] is
// the producers' part, and docs/model/announcer.pml the model.
//
// heard is called by one goroutine, run by one other.
type announcer struct {
	table   *Table
	connect func(context.Context) (*pgx.Conn, error)
	busy    chan struct{}

	// Of heard.
	last   uint32 // the session that notified last
	window time.Time
	count  int

	// owes says that rows may have been left unannounced by a session that broke off, and broke when.
	owes  bool
	broke time.Time
}

func newAnnouncer(table *Table, connect func(context.Context) (*pgx.Conn, error)) *announcer {
	return &announcer{table: table, connect: connect, busy: make(chan struct{}, 1)}
}

// heard counts a notification by the session that sent it. Those of one session follow each other anyway, such as those
// of another announcer.
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
	pause := minAnnouncerPause
	for {
		if !a.owes {
			select {
			case <-ctx.Done():
				return
			case <-a.busy:
			}
		}
		served, err := a.serve(ctx)
		select {
		case <-a.busy: // while it was awake
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

// serve is one time awake, on a connection of its own. It reports whether it was: somebody else may be.
func (a *announcer) serve(ctx context.Context) (served bool, err error) {
	defer contain.Recover(&err)
	conn, err := a.connect(ctx)
	if err != nil {
		return false, err
	}
	defer closeSoon(ctx, conn)
	d := &announcing{announcer: a, conn: conn}
	if taken, err := d.begin(ctx); err != nil || !taken {
		// Who has the lock looked for what was owed when it took it, unless it is the session that broke off: the
		// server may find out later than we did.
		a.owes = a.owes && (err != nil || time.Since(a.broke) < lingering)
		return false, err
	}
	a.owes = true
	a.log(ctx, "announcer awake")
	err = d.announceWhileBusy(ctx)
	if err == nil {
		err = d.fallAsleep(ctx)
	}
	a.owes, a.broke = err != nil, time.Now()
	a.log(ctx, "announcer asleep", slog.Int("looks", d.looks), slog.Int("announcements", d.sent))
	return true, err
}

func closeSoon(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn.Close(ctx)
}

func (a *announcer) log(ctx context.Context, what string, more ...slog.Attr) {
	defer a.table.telemetry.contain()
	a.table.telemetry.logger.LogAttrs(ctx, slog.LevelDebug, what, more...)
}
