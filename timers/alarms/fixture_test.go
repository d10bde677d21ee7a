package alarms_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

const patience = pgtest.Patience

const (
	alice, aliceUser = "did:matrix:alice:01", "alice"
	bob, bobUser     = "did:matrix:bob:02", "bob"
)

// fixture is alarms in a schema of their own.
type fixture struct {
	testing.TB
	*pgtest.DB
	alarms *alarms.Alarms
	store  *alarms.Store
	table  string // qualified
	timers string // qualified
}

func newAlarms(t testing.TB) *fixture {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	a, err := alarms.Open(alarms.Options{Schema: db.Schema,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, DB: db, alarms: a, store: a.On(db.Pool), table: db.Schema + ".alarms", timers: db.Schema +
		".timers"}
	var tables string
	for _, ddl := range []func(string) (string, string, error){timers.DDL, alarms.DDL} {
		up, _, err := ddl(db.Schema)
		if err != nil {
			t.Fatal(err)
		}
		tables += up
	}
	f.Define(t, tables)
	return f
}

func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	if _, err := f.Pool.Exec(f.Context(), query, args...); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
}

func ask[T any](f *fixture, query string, args ...any) (v T) {
	f.Helper()
	if err := f.Pool.QueryRow(f.Context(), query, args...).Scan(&v); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
	return v
}

func (f *fixture) clock() time.Time { return ask[time.Time](f, "SELECT clock_timestamp()").UTC() }

// until waits for a condition on the database.
func (f *fixture) until(what string, holds func() bool) {
	f.Helper()
	if !pgtest.Await(patience, holds) {
		f.Fatalf("not within %v: %s", patience, what)
	}
}

// once returns a valid alarm of alice's that fires in an hour.
func once() alarms.New {
	return alarms.New{OwnerDID: alice, UserID: aliceUser, Kind: alarms.KindOnce, Delay: time.Hour, WakeMessage: "go on"}
}

// daily returns a valid cron alarm of alice's.
func daily() alarms.New {
	return alarms.New{OwnerDID: alice, UserID: aliceUser, Kind: alarms.KindCron, CronExpr: "0 9 * * *",
		Timezone: "America/New_York", WakeMessage: "report"}
}

func (f *fixture) create(n alarms.New) alarms.Alarm {
	f.Helper()
	a, deduped, err := f.store.CreateAlarm(f.Context(), n)
	if err != nil || deduped {
		f.Fatalf("CreateAlarm: deduped %v, error %v", deduped, err)
	}
	return a
}

func (f *fixture) get(id string) alarms.Alarm {
	f.Helper()
	a, err := f.store.GetAlarm(f.Context(), id, alice)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// due makes the next delivery of an alarm due, as if the time had passed. It does not change the nominal time.
func (f *fixture) due(id string) {
	f.Helper()
	f.exec("UPDATE "+f.table+" SET next_fire_at = clock_timestamp() WHERE id = $1", id)
	f.exec("UPDATE "+f.timers+" SET due_at = clock_timestamp() WHERE key = 'alarm/' || $1", id)
}

// passed moves the nominal time of the firing into the past, too.
func (f *fixture) passed(id string, ago time.Duration) time.Time {
	f.Helper()
	nominal := f.clock().Add(-ago).Truncate(time.Minute)
	f.exec("UPDATE "+f.timers+" SET fire_at = $2 WHERE key = 'alarm/' || $1", id, nominal)
	f.due(id)
	return nominal
}

// timer returns the alarm's timer.
func (f *fixture) timer(id string) (i timers.Info) {
	f.Helper()
	tx, err := f.Pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	defer tx.Rollback(f.Context())
	if i, err = f.alarms.Timers().Get(f.Context(), workqueue.Pgx(tx), alarms.KeyPrefix+id); err != nil {
		f.Fatal(err)
	}
	return i
}

// quick polls often, because these tests change due times without a notification.
func quick() alarms.DispatcherOptions {
	return alarms.DispatcherOptions{PollInterval: 20 * time.Millisecond, ShutdownTimeout: 5 * time.Second}
}

func (f *fixture) dispatcher(w alarms.Waker, o alarms.DispatcherOptions) *alarms.Dispatcher {
	f.Helper()
	d, err := alarms.NewDispatcher(f.Pool, f.alarms, w, o)
	if err != nil {
		f.Fatal(err)
	}
	return d
}

// dispatch runs a dispatcher until the test ends, or until stop.
func (f *fixture) dispatch(w alarms.Waker, options ...alarms.DispatcherOptions) (stop func()) {
	f.Helper()
	d := f.dispatcher(w, append(options, quick())[0])
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	})
	f.Cleanup(stop)
	return stop
}

// A recorder is a waker that records its wakes. It returns nil, unless the test sets another answer.
type recorder struct {
	wakes  chan alarms.Wake
	answer func(alarms.Wake) error
}

func newRecorder(answer func(alarms.Wake) error) *recorder {
	return &recorder{wakes: make(chan alarms.Wake, 1000), answer: answer}
}

func (r *recorder) Wake(_ context.Context, w alarms.Wake) error {
	var err error
	if r.answer != nil {
		err = r.answer(w)
	}
	r.wakes <- w
	return err
}

var errRefused = errors.New("refused")

func refused(alarms.Wake) error { return errRefused }

func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("nothing received within %v", patience)
	}
	return v
}
