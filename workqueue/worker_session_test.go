package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/workqueue"
)

// oddSession is a session that shows values in other formats than drivers parse.
var oddSession = map[string]string{
	"bytea_output": "escape", "datestyle": "German, DMY", "intervalstyle": "sql_standard", "extra_float_digits": "-10",
	"timezone": "Asia/Kathmandu", "array_nulls": "off",
}

// every is a body with a column of each type whose text form depends on the session's settings.
type every struct {
	Topic   string
	Bytes   []byte
	At, Day time.Time
	Float   float64
	None    *string
	Number  string
}

// The settings of a session, by its role, its database or its URL, do not affect a claim. pgx's modes that send and
// read text are those for poolers.
func TestWorkerInAnOddSession(t *testing.T) {
	t.Parallel()
	want := every{
		Topic: "NULL", Bytes: []byte{0, 1, '\\', 'x', 200}, At: time.Date(2031, 2, 3, 4, 5, 6, 789000, time.UTC),
		Day: time.Date(2031, 12, 11, 0, 0, 0, 0, time.UTC), Float: 0.1234567890123456, Number: "12.50",
	}
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odd := func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
				maps.Copy(c.ConnConfig.RuntimeParams, oddSession)
			}
			r := newRig(t, rigOptions{pool: odd, spec: func(s *workqueue.Spec) {
				s.Columns = []workqueue.Column{
					{Name: "topic", Type: "text", NotNull: true}, {Name: "bytes", Type: "bytea"},
					{Name: "at", Type: "timestamptz"},
					{Name: "day", Type: "date"}, {Name: "float", Type: "double precision"},
					{Name: "none", Type: "text"},
					{Name: "number", Type: "numeric"},
				}
			}})
			domain := workqueue.Domain[every]{Table: r.Table, Columns: func(e *every, c *workqueue.Columns) {
				fields := []any{&e.Topic, &e.Bytes, &e.At, &e.Day, &e.Float, &e.None, &e.Number}
				for i, column := range r.Table.Spec().Columns {
					c.Field(column, fields[i])
				}
			}}
			got := make(chan every, 10)
			w, err := workqueue.NewWorker(r.Pool, domain, func(_ context.Context, c *workqueue.Claim[every]) error {
				got <- c.Body
				return nil
			}, workqueue.WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			id := r.insertRows(workqueue.NewRow{Values: []any{want.Topic, want.Bytes, want.At, want.Day, want.Float,
				nil, want.Number}})[0]
			r.runUntilDone(w, id)
			body := receive(t, got, "the row")
			body.At, body.Day = body.At.UTC(), body.Day.UTC()
			if !reflect.DeepEqual(body, want) {
				t.Errorf("got %+v, want %+v", body, want)
			}
			if row := r.row(id); row.Attempts != 1 {
				t.Errorf("%d attempts: %s", row.Attempts, row.Error)
			}
		})
	}
}

// runUntilDone runs a worker until a row is done.
func (r *rig) runUntilDone(w *workqueue.Worker, ids ...any) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r.eventually("the rows to be done", func() bool { return r.count("status = 2 AND id = ANY($1)", ids) == len(ids) })
	cancel()
	if err := receive(r, done, "the worker"); err != nil {
		r.Error(err)
	}
}

// If a core column of a row cannot be read, only that row's attempt fails.
func TestWorkerUnreadableTimeFailsAlone(t *testing.T) {
	t.Parallel()
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{pool: withExecMode(mode), spec: func(s *workqueue.Spec) { s.MaxAttempts = 1 }})
			good := r.insertMany("good", 3)
			bad := r.insert("bad")[0]
			r.exec("ALTER TABLE notes ALTER COLUMN created_at TYPE timestamptz") // it refuses what cannot be read otherwise
			r.exec("UPDATE notes SET created_at = 'infinity' WHERE id = $1", bad)
			r.start(workqueue.WorkerOptions{}, ackAll)
			r.awaitStatus(workqueue.Done, good...)
			r.awaitStatus(workqueue.Failed, bad)
			if row := r.row(bad); !strings.Contains(row.Error, "created_at") {
				t.Errorf("the error does not name the column: %s", row.Error)
			}
			if n := r.count("attempts <> 1"); n > 0 {
				t.Errorf("%d rows were claimed more than once", n)
			}
		})
	}
}

// A role whose transactions are read-only by default is not mistaken for a standby.
func TestWorkerOfARoleThatReadsByDefault(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{pool: func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}})
	r.exec("CREATE TABLE ledger (note uuid)")
	ids := r.insertMany("a", 5)
	r.start(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
		if c.Attempt == 1 {
			return errors.New("once more")
		}
		return c.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1)", c.ID)
			return err
		})
	})
	r.awaitStatus(workqueue.Done, ids...)
}

// This server listens on TCP, so that only the kernel's buffers take what is sent to a client that does not read.
func tcpServer(t *testing.T) (server *localpg.Server, host string) {
	t.Helper()
	host = fmt.Sprintf("127.77.%d.%d", rand.IntN(255), 1+rand.IntN(253))
	server, err := localpg.Start(t.Context(), localpg.Options{Settings: map[string]string{"listen_addresses": host}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server, host
}

// deafConn is a connection of a process that freezes between its request and the reply.
type deafConn struct {
	net.Conn
	deaf   *atomic.Bool
	closed chan struct{}
}

func (c deafConn) Read(b []byte) (int, error) {
	if c.deaf.Load() {
		<-c.closed
	}
	return c.Conn.Read(b)
}

// A process freezes when it has sent its claim and not read the reply. It must leave the rows to others. Otherwise the
// server would wait for room to send the rest for as long as the process exists, with the rows locked and not yet
// claimed.
func TestAFrozenReaderLosesItsClaim(t *testing.T) {
	t.Parallel()
	_, host := tcpServer(t)
	r := rigOn(t, "postgres://postgres@"+host+":5432/postgres?sslmode=disable", "public", rigOptions{})
	r.exec("INSERT INTO notes (topic, payload) SELECT 'a', repeat('x', 200000) FROM generate_series(1, 300)")

	var deaf atomic.Bool
	closed := make(chan struct{})
	thaw := sync.OnceFunc(func() { close(closed) })
	defer thaw() // even if the test has failed: the pool waits for its connections
	frozen := r.openPool(func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return deafConn{conn, &deaf, closed}, err
		}
	})
	if _, err := r.Table.On(frozen).Claim(t.Context(), workqueue.NewOwnerToken(), workqueue.MinLease, 1); err != nil {
		t.Fatal(err) // its statements are prepared from here on
	}
	deaf.Store(true)
	answered := make(chan error, 1)
	go func() {
		_, err := r.Table.On(frozen).Claim(context.WithoutCancel(t.Context()), workqueue.NewOwnerToken(),
			workqueue.MinLease, 300)
		answered <- err
	}()
	r.eventually("the claim to be under way", func() bool {
		return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'ClientWrite'") == 1
	})
	taken := 0 // a claim during the rollback of the frozen one finds only some of the rows
	r.eventually("the rows to be claimable again", func() bool {
		r.Queue.ReapExpired(t.Context(), 1000)
		rows, err := r.Queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Hour, 300)
		taken += len(rows)
		return err == nil && taken > 290
	})
	thaw()
	receive(t, answered, "the frozen claim's error")
}

// A standby refuses to begin transactions that write, and answers those that only read. When it has been promoted,
// workers claim from it.
func TestStandby(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	r := rigOn(t, server.URL(), "public", rigOptions{})
	r.insertMany("a", 3)
	if err := os.WriteFile(filepath.Join(server.Dir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(server.Crash(), server.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.Eyes.Reset()

	_, err = r.Queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
	if !errors.Is(err, workqueue.ErrReadOnly) || !strings.Contains(err.Error(), "connect to the primary") {
		t.Errorf("a claim on a standby: %v", err)
	}
	if stats, err := r.Queue.Stats(t.Context()); err != nil || stats.Ready != 3 {
		t.Errorf("got %+v, %v on a standby, want 3 rows", stats, err)
	}
	if err := r.Table.CheckVersion(t.Context(), r.Eyes); err != nil {
		t.Error(err)
	}
	r.exec("SELECT pg_promote()")
	r.eventually("a claim from the new primary", func() bool {
		rows, err := r.Queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
		return err == nil && len(rows) == 3
	})
}
