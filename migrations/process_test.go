package migrations_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// processOf is the id of the process in an owner token.
func processOf(token uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(token[:8]) >> 16) }

// Tokens of SQL and of Go have the same form.
func TestOwnerTokens(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	own := processOf(workqueue.NewOwnerToken())
	if own == 0 {
		t.Error("the process has the id 0")
	}
	seen := map[uuid.UUID]bool{}
	for _, process := range []int64{1, own, 1<<48 - 1} {
		for range 100 {
			for _, token := range []uuid.UUID{value[uuid.UUID](t, db.Pool, "SELECT owner_token($1)", process),
				workqueue.NewOwnerToken()} {
				if p := processOf(token); p != process && p != own || token.Version() != 8 ||
					token.Variant() != uuid.RFC4122 || seen[token] {
					t.Fatalf("%v of process %012x, or %012x, or it came twice", token, process, own)
				}
				seen[token] = true
			}
		}
	}
	for _, process := range []string{"0", "-1", "281474976710656", "NULL"} {
		refusedArgument(t, db, "SELECT owner_token("+process+")", "process")
	}
}

// refusedArgument checks that a call is refused because of an argument.
func refusedArgument(t *testing.T, db *pgtest.DB, call, parameter string) {
	t.Helper()
	_, err := db.Pool.Exec(t.Context(), call)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "22023" || pg.ColumnName != parameter || pg.Hint == "" ||
		!strings.HasPrefix(pg.Message, parameter+" ") {
		t.Errorf("%s: %+v, want that %s is refused", call, err, parameter)
	}
}

func TestProcessBeat(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	for parameter, args := range map[string]string{
		"process":  "0, 'h', 'l', 'v', '[]'",
		"host":     "1, repeat('h', 256), 'l', 'v', '[]'",
		"language": "1, 'h', NULL, 'v', '[]'",
		"version":  "1, 'h', 'l', repeat('ä', 128), '[]'",
		"serves":   "1, 'h', 'l', 'v', '{}'",
	} {
		refusedArgument(t, db, "CALL process_beat("+args+")", parameter)
	}
	refusedArgument(t, db, "CALL process_beat(1, 'h', 'l', 'v', to_jsonb(ARRAY[repeat('s', 20000)]))", "serves")
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var pg *pgconn.PgError
	_, err = tx.Exec(t.Context(), "CALL process_beat(1, 'h', 'l', 'v')")
	if !errors.As(err, &pg) || pg.Code != "2D000" {
		t.Errorf("in a transaction: %v", err)
	}

	// Fifteen are gone. Two beats remove them, but not one that somebody else has locked, and nothing of the session
	// changes.
	exec(t, db.Pool, `INSERT INTO process SELECT p, 'h', 'l', 'v', '[]', now() - interval '91 seconds'
		FROM generate_series(101, 115) AS p`)
	exec(t, db.Pool, "INSERT INTO process VALUES (200, 'h', 'l', 'v', '[]', now() - interval '80 seconds')")
	locked, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Rollback(t.Context())
	if _, err := locked.Exec(t.Context(), "SELECT FROM process WHERE id = 101 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for i, want := range []string{"101,112,113,114,115,200,4711", "101,200,4711"} {
		if _, err := conn.Exec(t.Context(), "CALL process_beat($1, $2, 'python 3.13', '1.0', $3::text::jsonb)",
			4711, fmt.Sprint("host ", i), `[{"table": "jobs"}]`); err != nil {
			t.Fatal(err)
		}
		if got := value[string](t, db.Pool, "SELECT string_agg(id::text, ',' ORDER BY id) FROM process"); got != want {
			t.Errorf("after beat %d there are %s, want %s", i, got, want)
		}
	}
	if got := value[string](t, db.Pool, "SELECT host || ' ' || language || ' ' || version || ' ' || serves FROM process "+
		"WHERE id = 4711 AND beat_at > now() - interval '1 minute'"); got != `host 1 python 3.13 1.0 [{"table": "jobs"}]` {
		t.Errorf("the row is %s", got)
	}
	for _, setting := range []string{"synchronous_commit", "search_path", "lock_timeout"} {
		var now, before string
		if err := conn.QueryRow(t.Context(), "SELECT setting, reset_val FROM pg_settings WHERE name = $1",
			setting).Scan(&now, &before); err != nil || now != before {
			t.Errorf("%s is %q, was %q: %v", setting, now, before, err)
		}
	}
}

// Workers in several runtimes of a process write one row for all of them.
func TestWorkersSayThatTheyRun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	runWorkers(t, db, slog.New(slog.DiscardHandler))
	pgtest.Await(pgtest.Patience, func() bool {
		return value[int](t, db.Pool, "SELECT count(*) FROM process") == 1
	})
	var host, language, version, serves string
	if err := db.Pool.QueryRow(t.Context(), "SELECT host, language, version, serves FROM process WHERE id = $1",
		processOf(workqueue.NewOwnerToken())).Scan(&host, &language, &version, &serves); err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(serves), &all); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(b), fmt.Sprint(a)) })
	got, _ := json.Marshal(all)
	if want := `[{"concurrency":5,"table":"outbox","topic_concurrency":2},` +
		`{"concurrency":4,"table":"jobs_schedule"},{"concurrency":3,"lanes":{"priority":[1,2,3],"queue":["default"]},"table":"jobs"}]`; string(got) != want {
		t.Errorf("it serves\n%s, want\n%s", got, want)
	}
	if host == "" || !strings.HasPrefix(language, "go1.") || version == "" {
		t.Errorf("host %q, language %q, version %q", host, language, version)
	}
}

// A lockedText is what a logger has written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Nothing depends on a beat. If a process cannot write it, that is logged once, and is no error in the server's log.
func TestWorkersRunWithoutBeats(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	up(t, newMigrator(t, db.Pool, db.Schema))
	exec(t, db.Pool, "DROP PROCEDURE process_beat")
	var log lockedText
	runWorkers(t, db, slog.New(slog.NewTextHandler(&log, nil)))
	exec(t, db.Pool, "INSERT INTO outbox (topic, payload) VALUES ('t', '')")
	const line = "does not say that it runs"
	pgtest.Await(pgtest.Patience, func() bool {
		return strings.Contains(log.String(), line) && value[int](t, db.Pool, "SELECT status FROM outbox") == 2
	})
	if n := strings.Count(log.String(), line); n != 1 || strings.Contains(log.String(), "ERROR") {
		t.Errorf("the log has it %d times:\n%s", n, log.String())
	}
}

type errand struct{}

func (errand) Kind() string { return "errand" }

// runWorkers runs a relay and workers of jobs until the end of the test, each in a runtime of its own.
func runWorkers(t *testing.T, db *pgtest.DB, logger *slog.Logger) {
	t.Helper()
	box, err := outbox.Open(outbox.Options{Schema: db.Schema, Telemetry: workqueue.Telemetry{Logger: logger}})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := outbox.NewRelay(db.Pool, box, outbox.RelayOptions{
		WorkerOptions: workqueue.WorkerOptions{Concurrency: 5, TopicConcurrency: 2}})
	if err != nil {
		t.Fatal(err)
	}
	relay.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	client, err := jobs.Open(jobs.Options{Schema: db.Schema, Telemetry: workqueue.Telemetry{Logger: logger}})
	if err != nil {
		t.Fatal(err)
	}
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil }, jobs.KindOptions[errand]{})
	w, err := jobs.NewWorker(db.Pool, client, jobs.WorkerOptions{Registry: kinds,
		Queues: []jobs.QueueOptions{{Name: "default", Concurrency: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- relay.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
}
