package workqueue

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// listenerHeartbeat is how long the listener trusts a silent connection before it sends a ping. Without the ping, a
// peer that vanished silently would never be noticed. The workers keep polling all the while.
const listenerHeartbeat = 30 * time.Second

// listenerIdleTimeout is how long the server keeps the session of a listener whose process is frozen. Until it ends,
// the server has to keep every notification for it.
const listenerIdleTimeout = 3 * listenerHeartbeat

// A listener has one connection that listens for all tables of a runtime, as long as there are any.
type listener struct {
	connect func(context.Context) (*pgx.Conn, error)

	mu        sync.Mutex
	tables    []*tableWork
	changed   bool   // since the connection last adjusted to them
	interrupt func() // ends the connection's wait
	stop      func() // nil: the listener does not run

	pooled sync.Once // the log says that nothing is heard through the pooler
}

func newListener(connect func(context.Context) (*pgx.Conn, error)) *listener {
	return &listener{connect: connect}
}

// add starts listening for a table.
func (l *listener) add(t *tableWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tables = append(l.tables, t)
	if l.stop == nil {
		l.stop = inBackground(l.run)
	}
	l.note()
}

// remove stops listening for a table. After the last table it ends the connection, and waits until it has ended.
func (l *listener) remove(t *tableWork) {
	l.mu.Lock()
	var kept []*tableWork
	for _, o := range l.tables {
		if o != t {
			kept = append(kept, o)
		}
	}
	l.tables = kept
	var stop func()
	if len(kept) == 0 {
		stop, l.stop = l.stop, nil
	}
	l.note()
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// note tells the connection that the tables have changed, or that it is to stand for election again.
func (l *listener) note() {
	l.changed = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

func (l *listener) list() []*tableWork {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tables
}

// run listens until ctx is cancelled, reconnecting as needed.
func (l *listener) run(ctx context.Context) {
	pause, deaf := outage.MinPause, deafness{since: time.Now()}
	for ctx.Err() == nil {
		start := time.Now()
		heard, err := l.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard && time.Since(start) > listenerHeartbeat {
			pause = outage.MinPause
		}
		if tables := l.list(); len(tables) > 0 && deaf.isNew(start, time.Now(), heard, tables[0].outage.Ongoing()) {
			tables[0].table.telemetry.Log(ctx, slog.LevelError, "listening fails; the worker polls",
				slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = min(pause*2, outage.MaxPause)
		}
	}
}

// A deafness is the time in which a listener has had no session that listened for a second.
type deafness struct {
	since         time.Time
	logged, brief bool
}

// isNew reports whether it is to be logged that listening fails, after a session that heard something or not. During
// an outage it is not, because the outage is logged already. A brief session that listened may have been ended by an
// outage that nothing else has noticed yet: the next session tells.
func (d *deafness) isNew(start, end time.Time, heard, outageGoesOn bool) bool {
	switch {
	case heard && end.Sub(start) > time.Second:
		*d = deafness{since: end}
	case outageGoesOn:
		d.brief = false
	case heard && !d.brief:
		d.brief = true
	case !d.logged && end.Sub(d.since) > outage.MaxPause:
		d.logged = true
		return true
	}
	return false
}

// session listens until that fails, and reports whether it has listened.
func (l *listener) session(ctx context.Context) (listened bool, err error) {
	defer contain.Recover(&err)
	c, err := l.connect(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	pooled, err := boundSession(ctx, c)
	if err == nil && pooled {
		err = l.checkHears(ctx, c)
	}
	if err != nil {
		return false, err
	}
	heard, e := make(map[*tableWork]bool), newElection(c)
	defer e.end(ctx)
	for spoke := time.Now(); ; {
		changed, err := l.adjust(ctx, c, heard)
		if err == nil && changed {
			err = e.stand(ctx, heard)
		}
		if err != nil {
			return listened, err
		}
		listened = true
		beat := spoke.Add(e.heartbeat())
		if time.Now().After(beat) {
			if err := ping(ctx, c); err != nil {
				return true, err
			}
			spoke = time.Now()
			continue
		}
		n, err := l.wait(ctx, c, beat)
		if err != nil {
			return true, err
		}
		if n != nil {
			l.received(n)
		}
	}
}

// boundSession has the server end the session of a process that is frozen or gone, and refuses one that does not
// fit. It reports whether there is a pooler before the session.
func boundSession(ctx context.Context, c *pgx.Conn) (pooled bool, err error) {
	text := "SELECT " + setSessionSetting("tcp_user_timeout", listenerIdleTimeout)
	if conn.ServerVersion(c) >= 14 {
		text += ", " + setSessionSetting("idle_session_timeout", listenerIdleTimeout)
	}
	results, err := c.PgConn().Exec(ctx, text+", "+isPooled(c)+" WHERE "+postgres.FitSession).ReadAll()
	if err == nil && len(results) == 1 && len(results[0].Rows) == 1 {
		row := results[0].Rows[0]
		pooled = string(row[len(row)-1]) == "t"
	}
	return pooled, explain(err)
}

func setSessionSetting(name string, d time.Duration) string {
	return "pg_catalog.set_config('" + name + "', '" + conn.Milliseconds(d) + "', false)"
}

// adjust reports whether something has changed, and adapts the connection to the current tables. It listens for new
// tables; each of these then looks for what may have been announced while this process did not listen. It stops
// listening for tables that are gone.
func (l *listener) adjust(ctx context.Context, c *pgx.Conn, heard map[*tableWork]bool) (changed bool, err error) {
	l.mu.Lock()
	tables := l.tables
	changed, l.changed = l.changed || len(heard) == 0, false
	l.mu.Unlock()
	if !changed {
		return false, nil
	}
	channels := make(map[string]bool, len(tables))
	for _, t := range tables {
		channels[t.table.spec.channel()] = true
		if heard[t] {
			continue
		}
		if _, err := c.Exec(ctx, "LISTEN "+quote(t.table.spec.channel())); err != nil {
			return changed, err
		}
		heard[t] = true
		t.missed()
	}
	for t := range heard {
		if slices.Contains(tables, t) {
			continue
		}
		delete(heard, t)
		if channel := t.table.spec.channel(); !channels[channel] {
			if _, err := c.Exec(ctx, "UNLISTEN "+quote(channel)); err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// wait returns a notification, or nothing when it is time for a heartbeat or when the tables have changed.
func (l *listener) wait(ctx context.Context, c *pgx.Conn, until time.Time) (*pgconn.Notification, error) {
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l.mu.Lock()
	l.interrupt = cancel
	if l.changed {
		cancel()
	}
	l.mu.Unlock()
	n, err := c.WaitForNotification(waiting)
	if err == nil || waiting.Err() == nil || ctx.Err() != nil || c.IsClosed() {
		return n, err
	}
	return nil, nil
}

// ping waits for a reply on the listener's own connection.
func ping(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenerHeartbeat/3)
	defer cancel()
	return c.Ping(ctx)
}
