package costs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// watchedName is the application_name of the measured sessions.
const watchedName = "measured"

// seen is what the measured sessions sent, and what PostgreSQL says that it cost. PostgreSQL tells by auto_explain, a
// part of its distribution, in a notice to the very session.
type seen struct {
	mu         sync.Mutex
	executed   []executed
	sent       []string
	unreadable error
}

// An executed statement. The plan's root counts what its parts did. Statements that triggers run are not in it.
type executed struct {
	Text string `json:"Query Text"`
	Plan struct {
		Rows float64 `json:"Actual Rows"`
		Hit  int     `json:"Shared Hit Blocks"`
		Read int     `json:"Shared Read Blocks"`
	}
}

func (e executed) buffers() int { return e.Plan.Hit + e.Plan.Read }

func (s *seen) watch(config *pgxpool.Config) {
	parameters := config.ConnConfig.RuntimeParams
	parameters["application_name"] = watchedName
	parameters["session_preload_libraries"] = "auto_explain"
	for name, value := range map[string]string{
		"log_min_duration": "0", "log_analyze": "on", "log_buffers": "on", "log_timing": "off",
		"log_format": "json", "log_level": "notice",
	} {
		parameters["auto_explain."+name] = value
	}
	config.ConnConfig.OnNotice = s.notice
	config.ConnConfig.Tracer = s
}

func (s *seen) notice(_ *pgconn.PgConn, n *pgconn.Notice) {
	_, plan, found := strings.Cut(n.Message, "plan:\n")
	if !found {
		return
	}
	var e executed
	err := json.Unmarshal([]byte(plan), &e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.unreadable = fmt.Errorf("%w\n%s", err, n.Message)
	}
	s.executed = append(s.executed, e)
}

// TraceQueryStart implements [pgx.QueryTracer].
func (s *seen) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.send(q.SQL)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*seen) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (*seen) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (s *seen) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.send(q.SQL)
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (*seen) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *seen) send(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, sql)
}

// forget is called when no measured session is at work.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executed, s.sent = nil, nil
}

// list is what has been executed.
func (s *seen) list(l *lab) []executed {
	l.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	l.ok(s.unreadable)
	return slices.Clone(s.executed)
}

// begins counts the transactions that were begun, and the statements that were sent outside of one.
func (s *seen) begins() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inside := false
	for _, sql := range s.sent {
		switch {
		case strings.HasPrefix(strings.ToUpper(sql), "BEGIN"):
			n, inside = n+1, true
		case strings.ToUpper(sql) == "COMMIT" || strings.ToUpper(sql) == "ROLLBACK":
			inside = false
		case !inside:
			n++
		}
	}
	return n
}

// sends counts the statements that were sent.
func (s *seen) sends() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// matching counts the statements that were sent of some kind.
func (s *seen) matching(is func(sql string) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sql := range s.sent {
		if is(sql) {
			n++
		}
	}
	return n
}

func isBegin(sql string) bool { return strings.HasPrefix(strings.ToUpper(sql), "BEGIN") }

// isUpkeep tells of sweeps, folds, and the question who is to do them.
func isUpkeep(sql string) bool {
	return strings.Contains(sql, `_sweep"(`) || strings.Contains(sql, `_fold"(`) || strings.Contains(sql, " upkeep ")
}
