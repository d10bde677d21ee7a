// Package outage logs the times in which a database does not answer: one line at the beginning and one at the end,
// however many parts of a process and however many statements are affected. It also has the pauses after failures: of a
// database, and of a handler's destination.
package outage

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
)

// quiet is how long no statement may fail before an outage is over, since connections that broke during it are
// discovered one by one.
const quiet = time.Second

// MinPause and MaxPause bound the growing pause between failing attempts: short enough to follow a failover, long
// enough not to overload the server that takes over.
const (
	MinPause = 50 * time.Millisecond
	MaxPause = 5 * time.Second
)

// maxWait bounds the pause after an attempt that timed out, waiting for a lock or otherwise. The attempt was a pause
// itself, and nothing announces that the lock is free.
const maxWait = 500 * time.Millisecond

// How long a destination rests that a handler called unavailable: at first, and at most (ADR 0078). Each rest is
// shorter by a random share of up to RestJitter, so that those which began together do not probe together.
const (
	FirstRest   = 500 * time.Millisecond
	LongestRest = 10 * time.Second
	RestJitter  = 0.2
)

// Next is the pause after a further failed attempt.
func Next(pause time.Duration, err error) time.Duration {
	most := MaxPause
	if pg, ok := contain.As[*pgconn.PgError](err); ok && (pg.Code == "55P03" || pg.Code == "57014") {
		most = maxWait
	}
	return min(pause*2, most)
}

// A Log is shared by everything that uses one database in a process. The zero value is usable.
type Log struct {
	mu       sync.Mutex
	away     map[any]bool // the users that wait for the database
	since    time.Time    // zero if there is no outage
	back     time.Time    // when the last user stopped waiting
	kind     Kind         // what was told last
	told     map[Kind]bool
	failures int
	ending   *time.Timer
}

// Failed reports that a statement did not reach a database that accepts statements. The parameter who identifies its
// sender. A line is logged when an outage begins, and when it turns out to be of another kind than it seemed.
func (l *Log) Failed(logger *slog.Logger, who any, err error) {
	kind := max(Of(err), Away)
	l.mu.Lock()
	if l.since.IsZero() {
		l.since, l.away, l.told = time.Now(), map[any]bool{}, map[Kind]bool{}
	}
	joins, turned := !l.away[who], !l.told[kind] && (kind != Away || len(l.told) == 0)
	if turned {
		l.kind, l.told[kind] = kind, true
	}
	l.away[who] = true
	l.failures++
	l.goOn()
	l.mu.Unlock()
	switch {
	case turned:
		log(logger, slog.LevelError, kinds[kind].begins, slog.Any("error", err))
	case joins:
		log(logger, slog.LevelDebug, "database does not answer here either", slog.Any("error", err))
	}
}

// Succeeded reports that a statement did reach the database.
func (l *Log) Succeeded(logger *slog.Logger, who any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away[who] {
		return
	}
	delete(l.away, who)
	if len(l.away) == 0 {
		l.back = time.Now()
		l.ending = time.AfterFunc(quiet, func() { l.end(logger) })
	}
}

// Left reports that a sender sends no more statements. If no sender waits for the database any longer, the outage is
// forgotten rather than reported as ended.
func (l *Log) Left(who any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away[who] {
		return
	}
	delete(l.away, who)
	if len(l.away) == 0 {
		l.since, l.failures = time.Time{}, 0
	}
}

// Flush reports a pending end at once.
func (l *Log) Flush() {
	l.mu.Lock()
	ending := l.ending
	l.mu.Unlock()
	if ending != nil {
		ending.Reset(0)
	}
}

// goOn cancels the pending end of an outage.
func (l *Log) goOn() {
	if l.ending != nil {
		l.ending.Stop()
		l.ending = nil
	}
}

func (l *Log) end(logger *slog.Logger) {
	l.mu.Lock()
	if l.ending == nil || len(l.away) > 0 { // the outage went on
		l.mu.Unlock()
		return
	}
	took, failures, kind := l.back.Sub(l.since), l.failures, l.kind
	l.since, l.failures, l.ending = time.Time{}, 0, nil
	l.mu.Unlock()
	log(logger, slog.LevelInfo, kinds[kind].ends, slog.Duration("after", took), slog.Int("failures", failures))
}

// log contains a panic of the application's log handler.
func log(logger *slog.Logger, level slog.Level, what string, attributes ...slog.Attr) {
	defer func() { _ = recover() }()
	logger.LogAttrs(context.Background(), level, what, attributes...)
}

// A Kind says why statements do not work.
type Kind int32

const (
	None     Kind = iota
	Away          // no answer
	ReadOnly      // the server does not write
	Refused       // the server does not accept the role or its password
	Misfit        // the server answers, in sessions that are refused here
)

// kinds are what is logged and told of each kind.
var kinds = []struct{ state, begins, ends string }{
	Away: {"the database does not answer", "database does not answer; the work goes on when it does",
		"database answers again"},
	ReadOnly: {"the database is read-only: connect to the primary",
		"database is read-only; the work goes on when it can be written", "database can be written again"},
	Refused: {"the database refuses the role: check its password, and pg_hba.conf",
		"database refuses the role; the work goes on when it does not", "database accepts the role again"},
	Misfit: {"the database's sessions do not fit: the log says what to change",
		"sessions of the database do not fit; the work goes on when they do", "sessions of the database fit again"},
}

// ErrSession is [workqueue.ErrSession]. It is here because no statement works while sessions do not fit.
var ErrSession = errors.New("the session does not fit")

// String says what the state is, and what to do. It is empty for [None].
func (k Kind) String() string {
	if k == None {
		return ""
	}
	return kinds[k].state
}

// codes are the classes and codes by which a server, or a pooler in front of it, says that it accepts no statements:
// lost connections, too few resources, and a shutdown or start.
var codes = []string{"08", "53", "57P"}

// Is tells errors that every statement would cause from errors of a particular statement.
func Is(err error) bool { return Of(err) != None }

// Of returns the kind of an outage, or [None] for an error of a particular statement.
func Of(err error) Kind {
	if err == nil || contain.Is(err, context.Canceled) {
		return None
	}
	pg, ok := contain.As[*pgconn.PgError](err)
	switch {
	case contain.Is(err, ErrSession):
		return Misfit
	case !ok:
		return Away
	case postgres.IsReadOnly(err):
		return ReadOnly
	case strings.HasPrefix(pg.Code, "28"): // invalid authorization: there is no session
		return Refused
	}
	if _, ok := contain.As[*pgconn.ConnectError](err); ok {
		return Away
	}
	for _, code := range codes {
		if strings.HasPrefix(pg.Code, code) {
			return Away
		}
	}
	return None
}
