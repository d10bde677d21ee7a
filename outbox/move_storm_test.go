package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// movePart says which part of a move a child process is.
const movePart = "TXWORK_TEST_MOVE_PART"

// takePart runs a relay of the rows, a relay of the successor, the move, or the way back, until the process is killed.
func takePart(ctx context.Context, part string) error {
	pool, err := pgxpool.New(ctx, os.Getenv(relayURL))
	if err != nil {
		return err
	}
	schema := os.Getenv(relaySchema)
	box, err := outbox.Open(outbox.Options{Schema: schema, Storage: outbox.MoveToLog, Ordering: outbox.PerKey,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		return err
	}
	if part == "back" {
		_, err := box.MoveBack(ctx, pool, outbox.MoveBackOptions{LockTimeout: 100 * time.Millisecond})
		return err
	}
	if part == "move" {
		_, err := box.Move(ctx, pool, outbox.MoveOptions{Subscription: "main", Lanes: 2,
			LockTimeout: 100 * time.Millisecond})
		return err
	}
	options := outbox.RelayOptions{WorkerOptions: workqueue.WorkerOptions{Lease: time.Second, ClaimLimit: relayPage,
		Concurrency: relayPage, PollInterval: 50 * time.Millisecond}}
	if part == "log" {
		options.Subscription = "main"
	}
	r, err := outbox.NewRelay(pool, box, options)
	if err != nil {
		return err
	}
	r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
		if rand.IntN(50) == 0 {
			return workqueue.RetryAfter(time.Duration(rand.IntN(1000))*time.Millisecond, errors.New("not yet"))
		}
		return delivered(ctx, pool, schema, m)
	})
	return r.Run(ctx)
}

// A part of a move is run by processes of which each is killed after a random time, until it is stopped.
func (f *fixture) killing(part string, deaths *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	var g sync.WaitGroup
	g.Go(func() {
		for n := 1; ctx.Err() == nil; n++ { // each lives longer, so that a slow machine gets on, too
			life, end := context.WithTimeout(ctx, time.Duration(n*(200+rand.IntN(1000)))*time.Millisecond)
			c := exec.CommandContext(life, os.Args[0], "-test.run=^$")
			c.Env = append(os.Environ(), relayURL+"="+f.URL, relaySchema+"="+f.DB.Schema, movePart+"="+part)
			c.Stderr = os.Stderr
			stdin, err := c.StdinPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil && life.Err() == nil {
				f.Error("a process does not start: ", err)
			}
			_ = c.Wait()
			_ = stdin.Close()
			deaths.Add(1)
			end()
		}
	})
	return func() { cancel(); g.Wait() }
}

// reaping ends the leases of relays that have died, as a reaper does, until the test ends.
func (f *fixture) reaping() {
	ctx, stop := context.WithCancel(f.Context())
	var g sync.WaitGroup
	g.Go(func() {
		for ctx.Err() == nil {
			for _, table := range f.box.Tables() {
				if _, err := table.On(f.Pool).ReapExpired(ctx, 1000); err != nil && ctx.Err() == nil {
					f.Error(err)
				}
			}
			pgtest.Pass(100 * time.Millisecond)
		}
	})
	f.Cleanup(func() { stop(); g.Wait() })
}

// Producers write all the time, in transactions that last, roll back or lose their connection, with keys, dedup keys
// and times, while relays of both kinds and the move are killed. Everything that was committed is delivered, in the
// order of its key, and repeated only by deaths.
func TestAMoveUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLoad(newMoving(t))
	f := l.fixture
	l.begin()
	some := pgtest.Size(100, 300)
	l.written("rows are written", some)
	mover := f.killing("move", new(atomic.Int64))
	f.until("the switch is made", func() bool {
		l.disconnect()
		return f.count("SELECT count(*) FROM "+f.table+"_state WHERE successor IS NOT NULL") == 1
	})
	l.written("messages are written while rows move", some)
	f.until("all rows have moved", func() bool {
		l.disconnect()
		return f.count("SELECT count(*) FROM "+f.table+"_state WHERE moving") == 0
	})
	l.written("messages are written afterwards", some)
	l.end()
	mover()
	f.subscriber("main", workqueue.WorkerOptions{Lease: time.Second}, func(r *outbox.Relay) { r.HandleAll(l.deliver) })
	f.until("everything is delivered", func() bool {
		return f.drained("main") && f.count("SELECT count(*) FROM "+f.table+"_later") == 0
	})
	l.reconcile()
}

// A load is what producers have committed while relays of both kinds are killed.
type load struct {
	*fixture
	sync.WaitGroup
	pool      *pgxpool.Pool
	stop      chan struct{}
	relays    []func() // that stop them
	deaths    atomic.Int64
	committed atomic.Int64
	mu        sync.Mutex
	sent      map[string]bool // ids
	numbers   map[string]int  // the last of each key
	duplicate int
}

func newLoad(f *fixture) *load {
	f.Helper()
	config, err := pgxpool.ParseConfig(f.URL)
	if err != nil {
		f.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "producer"
	pool, err := pgxpool.NewWithConfig(f.Context(), config)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	return &load{fixture: f, pool: pool, stop: make(chan struct{}), sent: map[string]bool{},
		numbers: map[string]int{}}
}

// begin starts relays, which are killed, and producers.
func (l *load) begin() {
	l.Helper()
	l.exec("CREATE TABLE " + l.Schema + ".delivered (n bigserial, id uuid, key text, number integer)")
	for _, part := range []string{"rows", "log", "rows", "log"} {
		l.relays = append(l.relays, l.killing(part, &l.deaths))
	}
	for p := range 4 {
		l.Go(func() { l.produce(p) })
	}
	l.reaping()
}

// written waits until producers have committed so many messages more.
func (l *load) written(what string, n int) {
	l.Helper()
	enough := l.committed.Load() + int64(n)
	l.until(what, func() bool { return l.committed.Load() >= enough || l.Failed() })
}

// end stops the producers, and then the relays.
func (l *load) end() {
	close(l.stop)
	l.Wait()
	for _, stop := range l.relays {
		stop()
	}
}

// deliver is the handler of a relay that is not killed.
func (l *load) deliver(ctx context.Context, m *outbox.Delivery) error {
	return delivered(ctx, l.Pool, l.Schema, m)
}

// delivered notes that a message was delivered.
func delivered(ctx context.Context, pool *pgxpool.Pool, schema string, m *outbox.Delivery) error {
	_, err := pool.Exec(ctx, "INSERT INTO "+schema+".delivered (id, key, number) VALUES ($1, $2, $3::text::integer)",
		m.ID, m.Key, string(m.Payload))
	return err
}

// disconnect ends the connection of a producer.
func (l *load) disconnect() {
	l.Helper()
	pgtest.Pass(50 * time.Millisecond)
	l.exec("SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity " +
		"WHERE application_name = 'producer' AND datname = current_database() ORDER BY random() LIMIT 1) AS one")
}

// has tells whether the messages of a transaction are anywhere.
func (l *load) has(ids []string) bool {
	return l.count("SELECT count(*) FROM (SELECT id FROM "+l.Schema+".outbox UNION ALL SELECT id FROM "+l.table+
		" UNION ALL SELECT id FROM "+l.table+"_later UNION ALL SELECT message_id FROM "+l.table+"_parked) AS m "+
		"WHERE id::text = ANY ($1)", ids) > 0
}

// reconcile compares what was delivered with what was committed. A relay that dies repeats what it had in hand: a
// page of each of its lanes, and as much that was parked.
func (l *load) reconcile() {
	l.Helper()
	deaths := int(l.deaths.Load())
	rows, err := l.Pool.Query(l.Context(),
		"SELECT id::text, coalesce(key, ''), number FROM "+l.Schema+".delivered ORDER BY n")
	if err != nil {
		l.Fatal(err)
	}
	got, last, repeats := map[string]bool{}, map[string]int{}, 0
	var id, key string
	var number int
	_, err = pgx.ForEachRow(rows, []any{&id, &key, &number}, func() error {
		switch {
		case got[id]:
			repeats++
		case !l.sent[id]:
			l.Errorf("%s of key %q was delivered and not committed", id, key)
		case key != "" && number != last[key]+1:
			l.Errorf("key %s: number %d after %d", key, number, last[key])
		}
		got[id] = true
		if key != "" {
			last[key] = max(last[key], number)
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
	for id := range l.sent {
		if !got[id] {
			l.Errorf("%s is lost", id)
		}
	}
	for key, n := range l.numbers {
		if last[key] != n {
			l.Errorf("key %s: delivered up to %d of %d", key, last[key], n)
		}
	}
	if most := deaths * 4 * relayPage; repeats > most {
		l.Errorf("%d repeats after %d deaths, want at most %d", repeats, deaths, most)
	}
	l.Logf("%d messages, %d duplicates refused, %d repeats after %d deaths", len(l.sent), l.duplicate, repeats, deaths)
}

// produce writes messages of keys of its own, which it numbers as they are committed. What became of a commit whose
// connection was lost is looked up.
func (l *load) produce(p int) {
	numbers, unique := map[string]int{}, 0
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		next, ids, fresh, again := map[string]int{}, []string{}, unique, 0
		err := pgx.BeginFunc(l.Context(), l.pool, func(tx pgx.Tx) error {
			for range 1 + rand.IntN(6) {
				m := outbox.Message{Topic: "t", Payload: []byte("0")}
				switch rand.IntN(10) {
				case 0:
					m.ScheduledAt = time.Now().Add(time.Duration(rand.IntN(3000)) * time.Millisecond)
				case 1:
					fresh++
					m.DedupKey = fmt.Sprintf("%d-%d", p, fresh)
				case 2:
					if unique > 0 { // one that was committed
						m.DedupKey = fmt.Sprintf("%d-%d", p, 1+rand.IntN(unique))
					}
				default:
					m.Key = fmt.Sprintf("p%d-%d", p, rand.IntN(8))
					next[m.Key]++
					m.Payload = []byte(strconv.Itoa(numbers[m.Key] + next[m.Key]))
					if rand.IntN(20) == 0 {
						m.ScheduledAt = time.Now().Add(time.Duration(rand.IntN(1000)) * time.Millisecond)
					}
				}
				isTaken := m.DedupKey != "" && m.DedupKey != fmt.Sprintf("%d-%d", p, fresh)
				written, err := l.fixture.box.Enqueue(l.Context(), workqueue.Pgx(tx), m)
				if err != nil {
					return err
				}
				if written.Duplicate != isTaken {
					return fmt.Errorf("dedup key %s: duplicate %t", m.DedupKey, written.Duplicate)
				}
				if written.Duplicate {
					again++
				} else {
					ids = append(ids, written.ID.String())
				}
			}
			pgtest.Pass(time.Duration(rand.IntN(20)) * time.Millisecond)
			if rand.IntN(5) == 0 {
				return errRollBack
			}
			return nil
		})
		switch {
		case err == nil:
		case errors.Is(err, errRollBack):
			continue
		case outage.Is(err): // of the commit nobody knows
			if !l.has(ids) {
				continue
			}
		default:
			l.Errorf("producer %d: %v", p, err)
			return
		}
		unique = fresh
		l.mu.Lock()
		for k, n := range next {
			numbers[k] += n
			l.numbers[k] = numbers[k]
		}
		for _, id := range ids {
			l.sent[id] = true
		}
		l.duplicate += again
		l.mu.Unlock()
		l.committed.Add(1)
	}
}
