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

// seen is what the measured sessions sent, and what it cost according to PostgreSQL. auto_explain, a part of
// PostgreSQL's distribution, reports the cost to each session in a notice.
type seen struct {
	mu         sync.Mutex
	executed   []executed
	sent       []sent
	batches    int
	unreadable error
}

// A sent is a statement that was sent. Statements with the same batch, from 1 on, were sent at once.
type sent struct {
	sql   string
	batch int
}

// An executed is a statement that was executed. The plan's root includes the counts of its parts, but not statements
// that triggers run.
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
	s.send(sent{sql: q.SQL})
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*seen) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

type batchKey struct{}

// TraceBatchStart implements [pgx.BatchTracer].
func (s *seen) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	return context.WithValue(ctx, batchKey{}, s.batches)
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (s *seen) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	batch, _ := ctx.Value(batchKey{}).(int)
	s.send(sent{q.SQL, batch})
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (*seen) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *seen) send(one sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, one)
}

// forget must be called while no measured session is active.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executed, s.sent = nil, nil
}

// list returns what has been executed.
func (s *seen) list(l *lab) []executed {
	l.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	l.ok(s.unreadable)
	return slices.Clone(s.executed)
}

// transactions counts explicit transactions, batches that are implicitly one, and single statements outside of any.
func (s *seen) transactions() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inside := false // inside a transaction of more than one batch
	batches := make(map[int]bool)
	for _, one := range s.sent {
		sql := strings.ToUpper(one.sql)
		begins, ends := strings.HasPrefix(sql, "BEGIN"), sql == "COMMIT" || sql == "ROLLBACK"
		switch {
		case one.batch > 0:
			if !inside && !batches[one.batch] {
				n++
			}
			batches[one.batch] = true
		case begins:
			n, inside = n+1, true
		case ends:
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

// matching counts the statements sent that match a condition.
func (s *seen) matching(is func(sql string) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sent {
		if is(one.sql) {
			n++
		}
	}
	return n
}

// beside counts the statements of the batches that contain a matching one.
func (s *seen) beside(is func(sql string) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batches := make(map[int]bool)
	for _, one := range s.sent {
		if one.batch > 0 && is(one.sql) {
			batches[one.batch] = true
		}
	}
	for _, one := range s.sent {
		if batches[one.batch] {
			n++
		}
	}
	return n
}

// isWork tells whether a statement is a claim or an ack.
func isWork(sql string) bool {
	return executed{Text: sql}.isClaim() || strings.Contains(sql, "SET status = 2")
}

// isUpkeep tells whether a statement is a sweep, a fold, or asks which process does them.
func isUpkeep(sql string) bool {
	return strings.Contains(sql, `_sweep"(`) || strings.Contains(sql, `_fold"(`) || strings.Contains(sql, " upkeep ")
}
