//go:build unix

package demo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/cmd/txwork/internal/demo"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

// A progress observes what the demo prints.
type progress struct {
	out    io.Writer
	schema string
	on     string // a text at which then is called
	then   func()
}

func (p *progress) Write(text []byte) (int, error) {
	if m := regexp.MustCompile(`schema (txwork_demo\w*),`).FindSubmatch(text); m != nil {
		p.schema = string(m[1])
	}
	if p.then != nil && bytes.Contains(text, []byte(p.on)) {
		p.then()
	}
	return p.out.Write(text)
}

func play(t *testing.T, o demo.Options) demo.Report {
	t.Helper()
	if o.Progress == nil {
		o.Progress = t.Output()
	}
	report, err := demo.Run(t.Context(), options(o))
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Write(t.Output()); err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	return report
}

// expectFaults checks that both faults have happened.
func expectFaults(t *testing.T, r demo.Report) {
	t.Helper()
	if r.Frozen.Midway < 1 || r.Frozen.Refused < r.Frozen.Midway {
		t.Errorf("the frozen worker had %d handlers in a transaction, %d of its settles were refused: want all of at "+
			"least 1",
			r.Frozen.Midway, r.Frozen.Refused)
	}
	if r.StaleSettlesRefused < int64(r.Frozen.Refused) {
		t.Errorf("%d stale settles refused, want at least %d", r.StaleSettlesRefused, r.Frozen.Refused)
	}
	if r.Killed.Midway < 1 || r.Killed.Claims < r.Killed.Midway {
		t.Errorf("the killed worker had %d handlers in a transaction and %d claims, want at least 1 and as many",
			r.Killed.Midway, r.Killed.Claims)
	}
	if r.Redelivered < 1 {
		t.Error("no message was redelivered")
	}
	if r.Frozen.Worker == r.Killed.Worker {
		t.Errorf("%s was frozen and killed, want two workers", r.Frozen.Worker)
	}
}

// The demo uses a private server unless the environment names another one.
func TestInventedTransfers(t *testing.T) {
	t.Parallel()
	transfers := pgtest.Size(500, 2000)
	r := play(t, demo.Options{Transfers: transfers, DatabaseURL: os.Getenv(localpg.DatabaseURLEnv)})
	expectFaults(t, r)
	rolledBack := transfers / 10
	applied := int64(transfers - rolledBack)
	if r.Enqueued != applied || r.Applied != applied || r.RolledBack != rolledBack {
		t.Errorf("%d enqueued, %d applied, %d rolled back, want %d, %[4]d, %d", r.Enqueued, r.Applied, r.RolledBack,
			applied, rolledBack)
	}
}

func TestGivenTransfersOnServerOfTheUser(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	abandoned, foreign := "txwork_demo_"+strings.Repeat("a", 26), "txwork_demo_"+strings.Repeat("b", 26)
	mustExec(t, conn, "CREATE SCHEMA "+abandoned, "CREATE TABLE "+abandoned+".t ()", "CREATE SCHEMA "+foreign,
		"COMMENT ON SCHEMA "+abandoned+" IS 'a run of `txwork demo`: dropped at its end, or by the next run'")
	t.Cleanup(func() { mustExec(t, conn, "DROP SCHEMA "+foreign) })

	told := &progress{out: t.Output()}
	r := play(t, demo.Options{Input: writeInput(t, 57), DatabaseURL: pgtest.URL(t), Progress: told})
	expectFaults(t, r)
	if r.Enqueued != 57 || r.Applied != 57 || r.RolledBack != 5 {
		t.Errorf("%d enqueued, %d applied, %d rolled back at first, want 57, 57, 5", r.Enqueued, r.Applied,
			r.RolledBack)
	}
	expectSchema(t, conn, told.schema, false) // the schema of this run
	expectSchema(t, conn, abandoned, false)   // that of a run that was killed
	expectSchema(t, conn, foreign, true)      // not created by a demo
}

func TestInterruptedOnServerOfTheUser(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	ctx, interrupt := context.WithCancel(t.Context())
	told := &progress{out: t.Output(), on: "frozen", then: interrupt}
	_, err := demo.Run(ctx, options(demo.Options{Transfers: 2000, DatabaseURL: pgtest.URL(t), Progress: told}))
	if !errors.Is(err, demo.ErrInterrupted) || err.Error() != "interrupted" {
		t.Errorf("error %v, want only that it was interrupted", err)
	}
	expectSchema(t, conn, told.schema, false)
}

// A single transfer is frozen in the first worker, killed in the second, and delivered by the third.
func TestSingleTransfer(t *testing.T) {
	t.Parallel()
	r := play(t, demo.Options{Transfers: 1, DatabaseURL: pgtest.URL(t)})
	expectFaults(t, r)
	if r.Applied != 1 || r.Redelivered != 1 {
		t.Errorf("%d applied, %d redelivered, want 1 and 1", r.Applied, r.Redelivered)
	}
}

// A worker on a slow machine loses its leases before a fault strikes it. Then the fault strikes another one, or the
// same one later: what it reports is true of claims that were held.
func TestLeasesThatEndBeforeAFault(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	told := &progress{out: t.Output()}
	ctx, end := context.WithCancel(t.Context())
	over := make(chan int64)
	told.on, told.then = "are running in schema", sync.OnceFunc(func() {
		go func() { over <- endLeases(ctx, t, conn, told.schema) }()
	})
	r := play(t, demo.Options{Transfers: 200, DatabaseURL: pgtest.URL(t), Progress: told})
	end()
	if ended := <-over; ended < 1 {
		t.Error("no lease was ended")
	}
	expectFaults(t, r)
}

// endLeases takes claims from their workers until ctx ends, and returns how many: the first three of each message. All
// that are held at first are held in vain, and those that claim the messages next wait for them.
func endLeases(ctx context.Context, t *testing.T, conn *pgx.Conn, schema string) (ended int64) {
	for ctx.Err() == nil {
		tag, err := conn.Exec(context.WithoutCancel(ctx), "UPDATE "+schema+
			".outbox SET status = 0, locked_until = NULL WHERE status = 1 AND attempts <= 3")
		var gone *pgconn.PgError
		if errors.As(err, &gone) && gone.Code == "42P01" { // the demo has dropped its schema
			return ended
		}
		if err != nil {
			t.Error(err)
			return ended
		}
		ended += tag.RowsAffected()
		pgtest.Pass(50 * time.Millisecond)
	}
	return ended
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options demo.Options
		want    string
	}{
		"negative":  {demo.Options{Transfers: -1}, "transfers is -1, it must be between 1 and 10000000"},
		"too many":  {demo.Options{Transfers: demo.MaxTransfers + 1}, "it must be between 1 and 10000000"},
		"both":      {demo.Options{Transfers: 1, Input: "x.csv"}, "choose between"},
		"no file":   {demo.Options{Input: filepath.Join(t.TempDir(), "none.csv")}, "no such file"},
		"directory": {demo.Options{Input: t.TempDir()}, "is a directory"},
		"bad URL":   {demo.Options{Transfers: 1, DatabaseURL: "postgres://%"}, "database URL"},
		"no server": {demo.Options{Transfers: 1, DatabaseURL: "postgres://nobody@127.0.0.1:1/none"}, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := demo.Run(t.Context(), options(c.options))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// writeInput writes a file like a spreadsheet's export.
func writeInput(t *testing.T, lines int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\uFEFFid,from,to,amount\r\n")
	for i := range lines {
		fmt.Fprintf(&b, "T-%d,\"Smith, %d\",savings,%d.%d\r\n", i, i%7, i+1, i%10)
	}
	name := filepath.Join(t.TempDir(), "transfers.csv")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func expectSchema(t *testing.T, conn *pgx.Conn, name string, want bool) {
	t.Helper()
	var there bool
	if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)",
		name).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if name == "" || there != want {
		t.Errorf("schema %q is there: %t, want %t", name, there, want)
	}
}
