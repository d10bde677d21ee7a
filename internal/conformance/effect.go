package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/workqueue"
)

// A record is every column of a row, including the domain's, as to_jsonb writes it. It is nil if the row does not
// exist.
type record map[string]any

func (s *suite) record(id uuid.UUID) record {
	s.Helper()
	rows, err := s.eyes.Query(s.Context(), s.sql("SELECT to_jsonb(t)::text FROM $T AS t WHERE id = $1"), id)
	s.ok(err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	s.ok(err)
	if len(texts) == 0 {
		return nil
	}
	var r record
	s.ok(json.Unmarshal([]byte(texts[0]), &r))
	if headers, ok := r["headers"].(map[string]any); ok {
		if r["headers"] = sdktest.Untraced(headers); len(headers) == 0 {
			r["headers"] = nil
		}
	}
	return r
}

// time parses a column as a time.
func (r record) time(column string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, fmt.Sprint(r[column]))
	if err != nil {
		panic(err)
	}
	return t
}

// An effect is what an operation does to a row: the columns that it changes. All other columns stay as they are.
type effect map[string]want

// gone is the effect of deleting the row.
var gone effect

// A want checks a column after an operation. It returns the problem, or an empty string.
type want func(got any, o observation) string

// An observation is a row before an operation, and the database's time before and after the operation.
type observation struct {
	before     record
	start, end time.Time
}

// is expects a value.
func is(v any) want {
	return func(got any, _ observation) string {
		if fmt.Sprint(got) != fmt.Sprint(v) {
			return fmt.Sprintf("want %v", v)
		}
		return ""
	}
}

// like expects a text that contains part.
func like(part string) want {
	return func(got any, _ observation) string {
		if s, ok := got.(string); !ok || !strings.Contains(s, part) {
			return fmt.Sprintf("want a text with %q", part)
		}
		return ""
	}
}

var (
	null = is(nil)
	now  = in(0)
)

// in expects a time at distance d from now, by the database's clock.
func in(d time.Duration) want { return between(d, d) }

// between expects a time between two distances from now.
func between(lo, hi time.Duration) want {
	return func(got any, o observation) string {
		return within(got, o.start.Add(lo), o.end.Add(hi))
	}
}

// at expects exactly the given time.
func at(t time.Time) want {
	return func(got any, _ observation) string { return within(got, t, t) }
}

// afterTheLease expects a time at some distance from the end of the lease, but not in the past.
func afterTheLease(lo, hi time.Duration) want {
	return func(got any, o observation) string {
		end := o.before.time("locked_until")
		return within(got, later(o.start, end.Add(lo)), later(o.end, end.Add(hi)))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func within(got any, lo, hi time.Time) string {
	t, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got))
	if err != nil || t.Before(lo) || t.After(hi) {
		return fmt.Sprintf("want a time between %s and %s", lo.Format(time.RFC3339Nano), hi.Format(time.RFC3339Nano))
	}
	return ""
}

// expect runs an operation and checks every column of a row afterwards.
func (s *suite) expect(id uuid.UUID, e effect, operation func()) {
	s.Helper()
	o := observation{before: s.record(id), start: s.clock()}
	operation()
	o.end = s.clock()
	after := s.record(id)
	if e == nil {
		equal(s, "row exists", after != nil, false)
		return
	}
	if after == nil {
		s.Fatalf("row %s is gone", id)
	}
	if problems := e.judge(after, o); len(problems) > 0 {
		s.Fatalf("row %s:\n%s", id, strings.Join(problems, "\n"))
	}
}

// judge compares every column of the row.
func (e effect) judge(after record, o observation) (problems []string) {
	for column, got := range after {
		wanted, ok := e[column]
		if !ok {
			wanted = is(o.before[column])
		}
		if problem := wanted(got, o); problem != "" {
			problems = append(problems, fmt.Sprintf("%s: was %v, is %v, %s", column, o.before[column], got, problem))
		}
	}
	for column := range e {
		if _, ok := after[column]; !ok {
			problems = append(problems, fmt.Sprintf("%s: no such column", column))
		}
	}
	slices.Sort(problems)
	return problems
}

// unchanged checks that an operation leaves rows alone.
func (s *suite) unchanged(ids []uuid.UUID, operation func()) {
	s.Helper()
	before := make([]string, len(ids))
	for i, id := range ids {
		before[i] = fmt.Sprint(s.record(id))
	}
	operation()
	for i, id := range ids {
		equal(s, "row "+id.String(), fmt.Sprint(s.record(id)), before[i])
	}
}

// clock returns the time of the database.
func (s *suite) clock() time.Time {
	s.Helper()
	return scan[time.Time](s, "SELECT clock_timestamp()")
}

// status returns the status of a row.
func (s *suite) status(id uuid.UUID) workqueue.Status {
	s.Helper()
	return scan[workqueue.Status](s, "SELECT status FROM $T WHERE id = $1", id)
}

// with returns the effect with some columns replaced.
func (e effect) with(changes effect) effect {
	all := effect{}
	for _, part := range []effect{e, changes} {
		maps.Copy(all, part)
	}
	return all
}

// containing expects a JSON object that, printed as a Go map, contains each of the parts.
func containing(parts ...string) want {
	return func(got any, _ observation) string {
		for _, part := range parts {
			if !strings.Contains(fmt.Sprint(got), part) {
				return fmt.Sprintf("want %q in it", part)
			}
		}
		return ""
	}
}
