package workqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A table's sweeps are the work of one process of all that serve it: the one whose listener holds the table's upkeep
// lock. The lock belongs to a session, so a process that dies gives it up, and one that is frozen loses it when the
// server ends the session. A process that stops gives it up and says so on the channel. The others ask every
// sweepEmptyEvery, in a transaction of their own, whether the lock is free; who finds it free sweeps, and has its
// listener take it. That covers processes that do not listen or cannot hold a lock, too: as long as nobody holds it,
// each of them sweeps by itself.
//
// Two processes may sweep at once for a moment. Sweeps are safe to run anywhere, any number of times.

const (
	// leaderHeartbeat is how often the session speaks that holds the lock; the server ends it after three without a
	// word.
	leaderHeartbeat = 5 * time.Second

	// unfitFor is how long a process does not stand whose sweeps have failed: another may have the rights that it
	// lacks.
	unfitFor = time.Minute
)

// upkeepPayload announces that the upkeep lock has become free.
const upkeepPayload = "upkeep"

// upkeepLock is the advisory lock of the process that sweeps. Programs that call other sweeps have another one.
func (s Spec) upkeepLock() string {
	return "pg_catalog.hashtextextended('" + s.Name() + " upkeep " + strings.Join(s.Sweeps, " ") + "', 0)"
}

// An election is a listener's session's part in the elections of its tables.
type election struct {
	conn   *pgx.Conn
	led    map[*tableWork]bool
	barred map[*tableWork]bool // its session cannot hold the lock, or not for all rows
	bound  time.Duration       // of the session, as the server has it
	listen string              // a LISTEN that holds
}

func newElection(conn *pgx.Conn) *election {
	return &election{conn: conn, led: make(map[*tableWork]bool), barred: make(map[*tableWork]bool),
		bound: listenerIdleTimeout}
}

// heartbeat is how often the session has to speak.
func (e *election) heartbeat() time.Duration {
	if len(e.led) > 0 {
		return leaderHeartbeat
	}
	return listenerHeartbeat
}

// stand takes the locks of tables that are free, and gives up those of tables that have gone or that others may serve
// better.
func (e *election) stand(ctx context.Context, tables map[*tableWork]bool) error {
	ctx, cancel := context.WithTimeout(ctx, listenerHeartbeat/3)
	defer cancel()
	e.listen = ""
	for t := range tables {
		e.listen = "LISTEN " + quote(t.table.spec.channel()) + "; "
	}
	for t := range e.led {
		if !tables[t] || !t.fit() {
			if err := e.yield(ctx, t); err != nil {
				return e.fatal(err)
			}
		}
	}
	var candidates []*tableWork
	for t := range tables {
		if len(t.table.spec.Sweeps) > 0 && t.fit() && !e.led[t] && !e.barred[t] {
			candidates = append(candidates, t)
		}
	}
	if len(candidates) > 0 {
		if err := e.take(ctx, candidates); err != nil {
			return e.fatal(err)
		}
	}
	return e.fatal(e.setBound(ctx))
}

// take tries the locks. A session through a pooler may lose them or leave them to others, and a role that sees a part
// of the rows cannot sweep all of them.
func (e *election) take(ctx context.Context, candidates []*tableWork) error {
	columns := make([]string, len(candidates))
	for i, t := range candidates {
		columns[i] = fmt.Sprintf("CASE WHEN pg_backend_pid() = %d AND NOT row_security_active(to_regclass('%s')) "+
			"THEN pg_try_advisory_lock(%s) END",
			e.conn.PgConn().PID(), t.table.view.Table, t.table.spec.upkeepLock())
	}
	taken, err := e.ask(ctx, "SELECT "+strings.Join(columns, ", "))
	if err != nil {
		return err
	}
	for i, t := range candidates {
		switch string(taken[i]) {
		case "": // NULL
			e.barred[t] = true
		case "t":
			e.led[t] = true
			t.lead()
		}
	}
	return nil
}

// setBound has the server end the session of a leader that is frozen sooner than that of another listener.
func (e *election) setBound(ctx context.Context) error {
	bound := 3 * e.heartbeat()
	if bound == e.bound || serverVersion(e.conn) < 14 {
		return nil
	}
	_, err := e.ask(ctx, "SELECT "+setSessionSetting("idle_session_timeout", bound))
	if err == nil {
		e.bound = bound
	}
	return err
}

func (e *election) yield(ctx context.Context, t *tableWork) error {
	delete(e.led, t)
	t.leads.Store(false)
	_, err := e.ask(ctx, "SELECT pg_advisory_unlock("+t.table.spec.upkeepLock()+"), pg_notify('"+t.table.spec.channel()+
		"', '"+upkeepPayload+"')")
	return err
}

// ask returns the row of a query, as text. The query follows a LISTEN that holds anyway: so pg_stat_activity shows a
// listener, which is how the doctor knows one.
func (e *election) ask(ctx context.Context, query string) ([][]byte, error) {
	results, err := e.conn.PgConn().Exec(ctx, e.listen+query).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows[0], nil
}

// end gives up all that the session leads, which ends.
func (e *election) end(ctx context.Context) {
	e.listen = ""
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for t := range e.led {
		if err := e.yield(ctx, t); err != nil {
			continue // with its session the lock goes, too
		}
	}
}

// fatal leaves out what the server has refused, such as in a table that is gone: the session goes on listening.
func (e *election) fatal(err error) error {
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && !e.conn.IsClosed() {
		return nil
	}
	return err
}

// lead begins the table's sweeps, and its folds at every poll interval.
func (t *tableWork) lead() {
	t.leads.Store(true)
	t.follows.Store(false)
	select {
	case t.elected <- struct{}{}:
	default:
	}
	if t.folder != nil {
		t.folder.want()
	}
}

// fit tells whether this process may stand.
func (t *tableWork) fit() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().After(t.unfitUntil)
}

// stepDown leaves the table's sweeps to others for a while, if there are any.
func (t *tableWork) stepDown() {
	t.mu.Lock()
	t.unfitUntil = time.Now().Add(unfitFor)
	t.mu.Unlock()
	t.system.listener.reconsider(t)
}

// mayTakeOver asks whether nobody holds the upkeep lock, and whether there are rows that have not ended. Who finds it
// free has the listener take it.
func (t *tableWork) mayTakeOver(ctx context.Context) (free, live bool) {
	err := t.within(context.WithoutCancel(ctx), func(ctx context.Context) (err error) {
		free, live, err = t.swept.upkeepFree(ctx)
		return err
	})
	if err != nil {
		return true, true // a sweep that fails tells more
	}
	t.follows.Store(!free)
	if free && t.fit() {
		t.system.listener.reconsider(t)
	}
	return free, live
}

// upkeepFree tells whether no session holds the upkeep lock, and whether there are rows that have not ended.
func (q *Queue) upkeepFree(ctx context.Context) (free, live bool, err error) {
	err = q.exec.run(ctx, call{
		statement: statement{
			name: "upkeep_free",
			text: "SELECT pg_try_advisory_xact_lock(" + q.table.spec.upkeepLock() + "), " + q.liveText(),
		},
		row: func(scan func(...any) error) error { return scan(&free, &live) },
	})
	return free, live, err
}

// reconsider has the session stand anew, if it listens for the table.
func (l *listener) reconsider(t *tableWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.tables, t) {
		l.note()
	}
}

// reconsiderAll is the same for all tables.
func (l *listener) reconsiderAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
}
