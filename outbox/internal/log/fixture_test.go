package log_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox/internal/log"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = time.Minute

// A fixture is a log in a schema of its own.
type fixture struct {
	*testing.T
	*pgtest.DB
	name string // of the log, qualified; functions append to it
}

func newLog(t *testing.T, options ...pgtest.Option) *fixture {
	t.Helper()
	db := pgtest.New(t, append(options, pgtest.Reused)...)
	up, _, err := log.DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	db.Define(t, up)
	return &fixture{T: t, DB: db, name: db.Schema + ".outbox_log"}
}

// A querier is a pool, a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (f *fixture) ok(err error) {
	f.Helper()
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Where != "" {
		f.Fatalf("%v: %s", err, e.Where)
	}
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) exec(q querier, sql string, args ...any) {
	f.Helper()
	_, err := q.Exec(f.Context(), sql, args...)
	f.ok(err)
}

func value[T any](f *fixture, q querier, sql string, args ...any) (v T) {
	f.Helper()
	f.ok(q.QueryRow(f.Context(), sql, args...).Scan(&v))
	return v
}

// begin opens a transaction that is rolled back at the end of the test, unless it ends earlier.
func (f *fixture) begin() pgx.Tx {
	f.Helper()
	tx, err := f.Pool.Begin(f.Context())
	f.ok(err)
	f.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// append writes messages without a key. Their payloads tell them apart.
func (f *fixture) append(q querier, payloads ...string) {
	f.Helper()
	for _, p := range payloads {
		f.exec(q, "SELECT "+f.name+"_append('topic', $1)", []byte(p))
	}
}

func (f *fixture) appendKey(q querier, key string, payloads ...string) {
	f.Helper()
	for _, p := range payloads {
		f.exec(q, "SELECT "+f.name+"_append('topic', $1, $2)", []byte(p), key)
	}
}

// tick returns the newest tick, and whether it was stored now.
func (f *fixture) tick() (newest int64, stored bool) {
	f.Helper()
	f.ok(f.Pool.QueryRow(f.Context(), "CALL "+f.name+"_tick()").Scan(&newest, &stored, nil, nil, nil))
	return newest, stored
}

// subscribe makes a subscription that begins now.
func (f *fixture) subscribe(name string) {
	f.Helper()
	f.tick()
	f.exec(f.Pool, "SELECT "+f.name+"_subscribe($1)", name)
}

type message struct {
	Seq     int64
	ID      uuid.UUID
	Topic   string
	Key     string
	Payload string
}

// A page is what a fetch returns.
type page struct {
	token    uuid.UUID
	messages []message
	lane     int
	attempts int
	upto     int64
	more     bool
	held     string
}

func (p page) payloads() []string {
	all := make([]string, len(p.messages))
	for i, m := range p.messages {
		all[i] = m.Payload
	}
	return all
}

func fetch(ctx context.Context, q querier, log, subscription string, token uuid.UUID, lease time.Duration, n int) (
	page, error) {
	p := page{token: token}
	rows, err := q.Query(ctx, `SELECT entry, seq, id, topic, coalesce(key, ''), payload, coalesce(lane, -1),
		coalesce(attempts, 0), coalesce(upto, 0), coalesce(more, false), coalesce(held, '')
		FROM `+log+`_fetch($1, $2, $3, $4) ORDER BY seq`, subscription, token, lease, n)
	if err != nil {
		return p, err
	}
	defer rows.Close()
	ends := 0
	for rows.Next() {
		var entry string
		var seq *int64
		var id *uuid.UUID
		var topic *string
		var m message
		var payload []byte
		if err := rows.Scan(&entry, &seq, &id, &topic, &m.Key, &payload, &p.lane, &p.attempts, &p.upto, &p.more,
			&p.held); err != nil {
			return p, err
		}
		if entry == "end" {
			ends++
			continue
		}
		m.Seq, m.ID, m.Topic, m.Payload = *seq, *id, *topic, string(payload)
		p.messages = append(p.messages, m)
	}
	if rows.Err() == nil && ends != 1 {
		return p, fmt.Errorf("a fetch returned %d ends", ends)
	}
	return p, rows.Err()
}

// fetch claims with a token of its own.
func (f *fixture) fetch(subscription string, n int) page {
	f.Helper()
	return f.fetchAgain(subscription, uuid.New(), n)
}

func (f *fixture) fetchAgain(subscription string, token uuid.UUID, n int) page {
	f.Helper()
	p, err := fetch(f.Context(), f.Pool, f.name, subscription, token, lease, n)
	f.ok(err)
	return p
}

// A failure is a message that failed, as settle takes it.
type failure struct {
	Seq   int64   `json:"seq"`
	Error string  `json:"error,omitempty"`
	Delay float64 `json:"delay"`

	Outcome string `json:"outcome,omitempty"`
}

func settle(ctx context.Context, q querier, log, subscription string, token uuid.UUID, upto int64, failed ...failure) (
	result string, err error) {
	list := []byte("[]")
	if len(failed) > 0 {
		if list, err = json.Marshal(failed); err != nil {
			return "", err
		}
	}
	err = q.QueryRow(ctx, "SELECT "+log+"_settle($1, $2, $3, $4)", subscription, token, upto, string(list)).
		Scan(&result)
	return result, err
}

func (f *fixture) settle(subscription string, token uuid.UUID, upto int64, failed ...failure) string {
	f.Helper()
	result, err := settle(f.Context(), f.Pool, f.name, subscription, token, upto, failed...)
	f.ok(err)
	return result
}

// settles checks what settle answers.
func (f *fixture) settles(want, subscription string, token uuid.UUID, upto int64, failed ...failure) {
	f.Helper()
	if got := f.settle(subscription, token, upto, failed...); got != want {
		f.Errorf("settle: %s, want %s", got, want)
	}
}

// drain ticks, and settles page by page all that a subscription gets.
func (f *fixture) drain(subscription string, n int) (payloads []string) {
	f.Helper()
	f.tick()
	token := uuid.New()
	for {
		p := f.fetchAgain(subscription, token, n)
		if p.upto == 0 && !p.more {
			if p.held != "" {
				f.Fatalf("%s is held: %s", subscription, p.held)
			}
			return payloads
		}
		payloads = append(payloads, p.payloads()...)
		if p.upto > 0 && f.settle(subscription, token, p.upto) == "ended" {
			token = uuid.New()
		}
	}
}

// lapse ends the leases of a subscription.
func (f *fixture) lapse(subscription string) {
	f.Helper()
	f.exec(f.Pool, "UPDATE "+f.name+"_position SET locked_until = now() - interval '1 second' "+
		"WHERE subscription = $1 AND locked_until IS NOT NULL", subscription)
}

func (f *fixture) want(what string, got []string, want ...string) {
	f.Helper()
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		f.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// refused checks that an error has a SQLSTATE.
func (f *fixture) refused(what string, err error, code string) {
	f.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != code {
		f.Errorf("%s: %v, want SQLSTATE %s", what, err, code)
	}
}

func numbered(prefix string, from, to int) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}
