package costs_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serverSettings keep the server from doing anything that no test has asked for. That full pages are not written to the
// log is localpg's default.
var serverSettings = map[string]string{
	"autovacuum":         "off",
	"checkpoint_timeout": "1h",
	"max_wal_size":       "8GB",
	"shared_buffers":     "256MB",
}

// serverURL starts the tests' server. Its supervisor removes it when the process ends. The user's server cannot be
// used, because it has other work.
var serverURL = sync.OnceValues(func() (string, error) {
	server, err := localpg.Start(context.Background(), localpg.Options{Settings: serverSettings})
	if err != nil {
		return "", err
	}
	return server.URL(), nil
})

// A lab is one test's database. Tests of this package do not run in parallel, because the log is shared by the whole
// server. Only tests that count what their own idle processes send do.
type lab struct {
	*testing.T
	name string // of the database
	url  string
	db   *pgxpool.Pool // fills and examines the database; what it does is not measured
	seen *seen         // what the measured sessions did
}

func newLab(t *testing.T) *lab {
	t.Helper()
	server, err := serverURL()
	if err != nil {
		t.Fatal(err)
	}
	name := "costs_" + strings.ToLower(rand.Text())
	l := &lab{T: t, seen: &seen{}, name: name, url: withDatabase(t, server, name)}
	l.admin("CREATE DATABASE " + name)
	t.Cleanup(func() { l.admin("DROP DATABASE " + name + " WITH (FORCE)") })
	l.db = pgschema.NewPool(t, l.url)
	return l
}

func withDatabase(t *testing.T, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// admin runs a statement outside of the lab's database.
func (l *lab) admin(statement string) {
	l.Helper()
	l.outside(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// outside calls do with a connection to another database than the lab's.
func (l *lab) outside(do func(context.Context, *pgx.Conn) error) {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := serverURL()
	l.ok(err)
	conn, err := pgx.Connect(ctx, server)
	l.ok(err)
	defer func() { _ = conn.Close(ctx) }()
	l.ok(do(ctx, conn))
}

// patience is how long a test waits for something that normally takes milliseconds.
const patience = 3 * time.Minute

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) exec(query string, args ...any) {
	l.Helper()
	if _, err := l.db.Exec(l.Context(), query, args...); err != nil {
		l.Fatalf("%v\n%s", err, query)
	}
}

func (l *lab) count(query string, args ...any) (n int64) {
	l.Helper()
	if err := l.db.QueryRow(l.Context(), query, args...).Scan(&n); err != nil {
		l.Fatalf("%v\n%s", err, query)
	}
	return n
}

// wal is the end of the log in bytes.
func (l *lab) wal() int64 {
	l.Helper()
	return l.count("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
}

// watched returns a pool whose sessions, and those that a worker opens with its configuration, report what they
// execute.
func (l *lab) watched(configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	l.Helper()
	return pgschema.NewPool(l.T, l.url, append(configure, l.seen.watch)...)
}

// eventually waits for a condition.
func (l *lab) eventually(what string, condition func() bool) {
	l.Helper()
	if !pgtest.Await(patience, condition) {
		l.Fatalf("timed out waiting until %s", what)
	}
}

// quiet waits until no session but those of l.db is left, because sessions report their counts when they end.
func (l *lab) quiet() {
	l.Helper()
	l.eventually("the measured sessions have ended", func() bool {
		return l.count("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", watchedName) == 0
	})
}
