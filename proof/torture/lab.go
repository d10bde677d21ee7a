//go:build unix

package torture

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
)

// A lab is what a run works with: servers, tables, journals and the crew.
type lab struct {
	options Options
	dir     string       // directory of the journals, and of files that faults need
	release func() error // marks the directory as unused
	schema  string
	crew    *crew
	journal *journal
	shop    *shop       // for faults that write rows
	pausing atomic.Bool // producers wait
	logHigh atomic.Bool // subscriptions are far behind

	// Settings of the servers. Faults may add to the first three in configure.
	settings    map[string]string
	environment map[string]string
	tables      map[string]string // run-time parameters of the session that creates the tables
	server      *localpg.Server   // the primary; nil on the user's server
	address     string            // its TCP address, for proxies
	spaces      []string          // directories of its tablespaces
	url         string            // used by members and producers
	admin       *pgxpool.Pool
	mark        *pgx.Conn // marks the run's schema as in use on the user's server

	// The standby, if there is one.
	standby        *localpg.Server
	standbyAddress string
	standbySpaces  []string

	hit    time.Time   // when the current strike struck
	steps  []step      // steps of announcers that have not been struck yet in this round
	clocks []clockStep // steps of the servers' clock

	saying   sync.Mutex // several goroutines report progress
	mu       sync.Mutex
	outages  []Span
	killed   int // processes of the server that strikes killed
	held     []Disturbance
	failures []string // what went wrong without showing in a history
}

// Names of a run's directory, of the file in it that marks it as in use, and of the mount point of a file system in it.
const (
	dirPrefix = "txwork-torture-"
	markName  = "in-use"
	smallName = "small"
)

func newLab(o Options) (*lab, error) {
	left := clearLeftovers(os.TempDir())
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, err
	}
	release, err := claimDir(dir)
	if err != nil {
		return nil, err
	}
	l := &lab{
		options: o, dir: dir, release: release, schema: schemaPrefix + strings.ToLower(rand.Text()[:8]),
		settings: map[string]string{
			"max_connections": "500", "track_commit_timestamp": "on", "max_prepared_transactions": "10",
			"log_min_messages": "log", "log_min_error_statement": "panic", "log_checkpoints": "off",
		},
		tables: map[string]string{}, environment: map[string]string{}, failures: []string{},
		crew: newCrew(),
	}
	for _, dir := range left {
		l.say("removed %s, which a run had left behind", dir)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the server's user must be able to read some files in it
		return nil, err
	}
	l.journal, err = openJournal(filepath.Join(dir, "producers.journal"))
	return l, err
}

func (l *lab) say(format string, args ...any) {
	l.saying.Lock()
	defer l.saying.Unlock()
	fmt.Fprintln(l.options.Progress, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l *lab) needPrivate() error {
	if l.options.DatabaseURL != "" {
		return skip("it stops or changes the whole server, and the server is not the run's own: leave out the " +
			"database URL")
	}
	return nil
}

// reach verifies that the user's server answers before faults are prepared, which may take minutes.
func (l *lab) reach(ctx context.Context) error {
	if l.options.DatabaseURL == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, l.options.DatabaseURL)
	if err != nil {
		return fmt.Errorf("the database cannot be reached: check the URL and that the server runs: %w", err)
	}
	return conn.Close(ctx)
}

// start starts a private server, unless the user has named one, and connects to it.
func (l *lab) start(ctx context.Context) (err error) {
	if l.url = l.options.DatabaseURL; l.url == "" {
		if err = l.startServer(ctx); err != nil {
			return err
		}
	}
	if err := l.reopenAdmin(ctx); err != nil {
		return err
	}
	return l.guardSchema(ctx)
}

// reopenAdmin connects to whichever server is the primary.
func (l *lab) reopenAdmin(ctx context.Context) (err error) {
	if l.admin != nil {
		l.admin.Close()
	}
	l.admin, err = l.open(ctx, "run", 4, nil)
	return err
}

// putEnvironment sets variables for servers that are started until restore is called. Other processes must not see
// them.
func (l *lab) putEnvironment() (restore func()) {
	for name, value := range l.environment {
		os.Setenv(name, value)
	}
	return func() {
		for name := range l.environment {
			os.Unsetenv(name)
		}
	}
}

func (l *lab) startServer(ctx context.Context) (err error) {
	l.address = loopback() + ":5432"
	l.settings["listen_addresses"] = strings.TrimSuffix(l.address, ":5432")
	defer l.putEnvironment()()
	l.server, err = localpg.Start(ctx, localpg.Options{Settings: l.settings})
	if err != nil {
		return err
	}
	l.url = socketURL(l.server.Dir())
	return nil
}

// loopback is an address of this machine that is unlikely to be in use: the whole of 127.0.0.0/8 is local on Linux.
func loopback() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+mathrand.IntN(250), mathrand.IntN(250), 2+mathrand.IntN(250))
}

// socketURL returns a URL for whichever of the servers accepts writes.
func socketURL(dirs ...string) string {
	ports := strings.TrimSuffix(strings.Repeat("5432,", len(dirs)), ",")
	query := url.Values{"host": {strings.Join(dirs, ",")}, "port": {ports}, "sslmode": {"disable"},
		"connect_timeout": {"5"}}
	if len(dirs) > 1 {
		query.Set("target_session_attrs", "read-write")
	}
	return "postgres://postgres@/postgres?" + query.Encode()
}

// open opens a pool for the run's own process.
func (l *lab) open(ctx context.Context, name string, size int32, parameters map[string]string) (*pgxpool.Pool, error) {
	return l.openURL(ctx, l.url, name, size, parameters, nil)
}

func (l *lab) openURL(ctx context.Context, url, name string, size int32, parameters map[string]string,
	change func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = size
	config.ConnConfig.RuntimeParams["application_name"] = "run " + name
	for key, value := range parameters {
		config.ConnConfig.RuntimeParams[key] = value
	}
	if change != nil {
		change(config)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// install lets the program create the tables, because a deliberately broken build may have other ones.
func (l *lab) install(ctx context.Context) error {
	m := newMember(runPrefix+"install", l.options.Program)
	err := m.start(l.crew.spawner, setup{
		App: m.app, Role: roleInstaller, URL: l.url, Schema: l.schema, Parameters: l.tables, PoolSize: 2,
		Journal: filepath.Join(l.dir, "install.journal"),
	})
	if err != nil {
		return err
	}
	select {
	case <-m.ended:
	case <-ctx.Done():
		m.signal(syscall.SIGKILL)
		<-m.ended
	}
	if m.err != nil {
		return fmt.Errorf("making the tables: %w\n%s", m.err, m.stderr.String())
	}
	return nil
}

// staff starts the crew.
func (l *lab) staff() {
	base := setup{URL: l.url, Schema: l.schema, Seed: l.options.Seed, PoolSize: 3 * handlersEach, Poll: l.options.Poll}
	for i := range l.options.Workers {
		base.Role, base.Batches = roleWorker, i%2 == 0
		l.crew.add(fmt.Sprintf("worker%d", i+1), l.options.Program, l.dir, base)
	}
	for i := range l.options.SQLWorkers {
		base.Role, base.Batches = roleSQLWorker, false
		l.crew.add(fmt.Sprintf("sql%d", i+1), l.options.Program, l.dir, base)
	}
	for i := range 2 {
		base.Role, base.PoolSize = roleReaper, 4
		l.crew.add(fmt.Sprintf("reaper%d", i+1), l.options.Program, l.dir, base)
	}
}

// outage records that a server ended without warning. It is called when the server is back, with the time before the
// end.
func (l *lab) outage(from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outages = append(l.outages, Span{from, time.Now()})
}

// disturb records that something has held up rows from the given time until now.
func (l *lab) disturb(from time.Time, announcers bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, Disturbance{Span{from, time.Now()}, announcers})
}

// undisturbed is when earlier disturbances no longer excuse a wait.
func (l *lab) undisturbed() (from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.held {
		from = latest(from, d.To.Add(l.options.Poll+hearing))
	}
	return from
}

func (l *lab) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf(format, args...))
}

// awaitServer returns when the server accepts writes.
func (l *lab) awaitServer(ctx context.Context) error {
	for {
		_, err := l.admin.Exec(ctx, "SELECT pg_current_xact_id()")
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// close removes everything that the run created.
func (l *lab) close() error {
	var errs []error
	if l.admin != nil {
		if l.options.DatabaseURL != "" {
			_, err := l.admin.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+l.schema+" CASCADE")
			errs = append(errs, err)
		}
		l.admin.Close()
	}
	if l.mark != nil {
		errs = append(errs, l.mark.Close(context.Background()))
	}
	for _, server := range []*localpg.Server{l.server, l.standby} {
		if server != nil {
			errs = append(errs, server.Stop())
		}
	}
	return errors.Join(append(errs, l.journal.close(), os.RemoveAll(l.dir), l.release())...)
}
