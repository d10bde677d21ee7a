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

	"github.com/txwork/txwork/workqueue/internal/conn"
)

// Of all processes that serve a table, one runs its sweeps: the one whose listener holds the table's upkeep lock. The
// lock belongs to a session, so a process that dies gives it up, and a frozen process loses it when the server ends the
// session. A process that stops releases the lock and says so on the channel. Every sweepEmptyEvery the other processes
// ask, in a transaction of their own, whether the lock is free. A process that finds it free sweeps, and makes its
// listener take the lock. This also covers processes that do not listen or cannot hold a lock: as long as no process
// holds it, each of them sweeps by itself.
//
// Two processes may sweep at once for a moment. Sweeps are safe to run anywhere, any number of times.

// leaderHeartbeat is how often the session that holds the lock sends something. The server ends a session that has been
// silent for three heartbeats.
const leaderHeartbeat = 5 * time.Second

// upkeepPayload announces that the upkeep lock has become free.
const upkeepPayload = "upkeep"

// upkeepLock is the advisory lock of the process that sweeps. Programs with a different list of sweeps use a different
// lock.
func (s Spec) upkeepLock() string {
	return "pg_catalog.hashtextextended('" + s.Name() + " upkeep " + strings.Join(s.Sweeps, " ") + "', 0)"
}

// An election is the part that a listener's session takes in the elections of its tables.
type election struct {
	conn   *pgx.Conn
	led    map[*tableWork]bool
	barred map[*tableWork]bool // the session cannot hold the lock, or its role does not see all rows
	bound  time.Duration       // the session's idle timeout, as the server has it
	listen string              // a LISTEN that is in force already, see ask
}

func newElection(conn *pgx.Conn) *election {
	return &election{conn: conn, led: make(map[*tableWork]bool), barred: make(map[*tableWork]bool),
		bound: listenerIdleTimeout}
}

// heartbeat is how often the session has to send something.
func (e *election) heartbeat() time.Duration {
	if len(e.led) > 0 {
		return leaderHeartbeat
	}
	return listenerHeartbeat
}

// stand takes the upkeep locks that are free. It gives up those of tables that are gone, or that other processes may
// serve better.
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

// take tries to take the locks. It does not try through a pooler, where a session may lose its locks or leave them to
// other clients. Nor does it with a role that sees only a part of the rows, and so cannot sweep all of them.
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

// setBound makes the server end the session of a frozen leader sooner than that of another listener.
func (e *election) setBound(ctx context.Context) error {
	bound := 3 * e.heartbeat()
	if bound == e.bound || conn.ServerVersion(e.conn) < 14 {
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
	_, err := e.ask(ctx, "SELECT pg_advisory_unlock("+t.table.spec.upkeepLock()+"), "+
		t.table.spec.announcing().Notify("'"+upkeepPayload+"'"))
	return err
}

// ask returns the row of a query, as text. A LISTEN that is in force already precedes the query: pg_stat_activity then
// shows a LISTEN, by which the doctor recognises a listener.
func (e *election) ask(ctx context.Context, query string) ([][]byte, error) {
	results, err := e.conn.PgConn().Exec(ctx, e.listen+query).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows[0], nil
}

// end gives up everything that the session leads, before the session ends.
func (e *election) end(ctx context.Context) {
	e.listen = ""
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for t := range e.led {
		if err := e.yield(ctx, t); err != nil {
			continue // the lock goes when the session ends
		}
	}
}

// fatal drops errors of statements that the server has refused, such as for a table that is gone: the session goes on
// listening.
func (e *election) fatal(err error) error {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok && !e.conn.IsClosed() {
		return nil
	}
	return err
}

// lead starts the table's sweeps, and its folds at every poll interval.
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

// fit reports whether this process may stand for election.
func (t *tableWork) fit() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().After(t.unfitUntil)
}

// stepDown leaves the table's sweeps to other processes for a while, if there are any.
func (t *tableWork) stepDown() {
	t.mu.Lock()
	t.unfitUntil = time.Now().Add(unfitFor)
	t.mu.Unlock()
	t.system.listener.reconsider(t)
}

// standIfFree asks whether the upkeep lock is free, and whether there are rows that have not ended. If the lock is
// free, it makes the listener take it. If the database does not answer, it reports both: the error of the sweep says
// more.
func (t *tableWork) standIfFree(ctx context.Context) (free, live bool) {
	err := t.within(context.WithoutCancel(ctx), func(ctx context.Context) (err error) {
		free, live, err = t.swept.upkeepFree(ctx)
		return err
	})
	if err != nil {
		return true, true
	}
	t.follows.Store(!free)
	if free && t.fit() {
		t.system.listener.reconsider(t)
	}
	return free, live
}

// upkeepFree tells whether no session holds the upkeep lock, and whether there are rows that have not ended.
func (q *Queue) upkeepFree(ctx context.Context) (free, live bool, err error) {
	err = q.exec.run(ctx, conn.Call{
		Statement: conn.Statement{
			Name: "upkeep_free",
			Text: "SELECT pg_try_advisory_xact_lock(" + q.table.spec.upkeepLock() + "), " + q.liveText(),
		},
		Row: func(scan func(...any) error) error { return scan(&free, &live) },
	})
	return free, live, err
}

// reconsider makes the listener's session stand again, if it listens for the table.
func (l *listener) reconsider(t *tableWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.tables, t) {
		l.note()
	}
}

// reconsiderAll makes the listener's session stand again for all tables.
func (l *listener) reconsiderAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
}
