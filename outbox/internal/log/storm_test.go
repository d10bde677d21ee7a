package log_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
)

// A storm is producers with long transactions, rollbacks and savepoints, consumers of three subscriptions that die,
// hang and lose their sessions, messages that fail, ticks that are deleted and slots that are emptied, all at once. In
// the end each subscription has handled what was committed, all of it and nothing else, and each key in its order.
func TestStorm(t *testing.T) {
	t.Parallel()
	for _, hasVerbs := range []bool{false, true} {
		t.Run(fmt.Sprintf("verbs=%t", hasVerbs), func(t *testing.T) { testStorm(t, hasVerbs) })
	}
}

func testStorm(t *testing.T, hasVerbs bool) {
	t.Parallel()
	f := newLog(t, pgtest.WithPool(func(c *pgxpool.Config) { c.MaxConns = 16 }))
	f.DB.Define(t, `CREATE TABLE sent (n bigserial PRIMARY KEY, payload text NOT NULL, key text);
		CREATE TABLE effect (n bigserial PRIMARY KEY, subscription text NOT NULL, payload text NOT NULL);`)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &storm{fixture: f, seed: seed, hasVerbs: hasVerbs}
	f.tick()
	for name, lanes := range map[string]int{"plain": 1, "lanes": 3, "fails": 2} {
		f.exec(f.Pool, "SELECT "+f.name+"_subscribe($1, lanes => $2)", name, lanes)
	}

	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	var consumers, producers sync.WaitGroup
	for _, name := range []string{"plain", "lanes", "lanes", "lanes", "fails", "fails"} {
		consumers.Go(func() { s.consume(ctx, name) })
	}
	consumers.Go(func() { s.handleParked(ctx, "fails") })
	consumers.Go(func() { s.disturb(ctx) })
	for range 4 {
		producers.Go(func() { s.produce(pgtest.Size(100, 600)) })
	}
	producers.Wait()
	s.noVerbs.Store(true)
	sent := value[int](f, f.Pool, "SELECT count(*) FROM sent")
	handled := func() int {
		return value[int](f, f.Pool, "SELECT count(DISTINCT (subscription, payload)) FROM effect")
	}
	for n := handled(); n < 3*sent; n = handled() { // however long it takes, as long as it goes on
		if !pgtest.Await(pgtest.Patience, func() bool { return handled() > n }) {
			t.Errorf("not within %v: another message after %d of %d", pgtest.Patience, n, 3*sent)
			break
		}
	}
	stop()
	consumers.Wait()
	s.reconcile()
	repeated := value[int](f, f.Pool, "SELECT count(*) FROM effect") - 3*sent
	t.Logf("%d messages, %d deaths, %d failures, %d slots emptied, %d repeated", sent, s.deaths.Load(),
		s.failures.Load(), s.emptied.Load(), repeated)
	if !hasVerbs && repeated > int(s.deaths.Load())*maxPage {
		t.Errorf("%d messages were handled again after %d deaths: more than the pages in hand", repeated,
			s.deaths.Load())
	}

	if !pgtest.Await(pgtest.Patience, func() bool { // a session whose client is gone ends with its statement
		return value[int](f, f.Pool, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1",
			s.consumers()) == 0
	}) {
		t.Errorf("not within %v: the sessions of consumers end", pgtest.Patience)
	}
	for _, name := range []string{"plain", "lanes", "fails"} { // what was handled and not settled
		f.lapse(name)
		f.drain(name, 100)
	}
	if !pgtest.Await(pgtest.Patience, func() bool { // autovacuum may have a slot
		f.trim("0")
		return value[int](f, f.Pool, "SELECT count(*) FROM "+f.name) == 0
	}) {
		t.Errorf("not within %v: slots that all have passed are empty", pgtest.Patience)
	}
}

const maxPage = 40 // messages that a consumer fetches at once

type storm struct {
	*fixture
	seed                      uint64
	hasVerbs                  bool        // subscriptions are paused, changed and replayed
	noVerbs                   atomic.Bool // not any more
	actors                    atomic.Uint64
	payload                   atomic.Int64
	deaths, failures, emptied atomic.Int64
}

// consumers is what the sessions of consumers are called.
func (s *storm) consumers() string { return "consumers of " + s.DB.Schema }

// random is the chance of one goroutine.
func (s *storm) random() *rand.Rand { return rand.New(rand.NewPCG(s.seed, s.actors.Add(1))) }

var errUndo = errors.New("undo")

func (s *storm) produce(transactions int) {
	r := s.random()
	for range transactions {
		err := pgx.BeginFunc(s.Context(), s.Pool, func(tx pgx.Tx) error {
			isLong := r.IntN(20) == 0
			key := fmt.Sprintf("key%d", r.IntN(6)) // one, so that transactions wait for each other in no circle
			for range 1 + r.IntN(4) {
				var of *string
				if !isLong && r.IntN(3) > 0 {
					of = &key
				}
				if err := s.send(tx, r, of); err != nil {
					return err
				}
			}
			if isLong {
				pgtest.Pass(time.Duration(r.IntN(300)) * time.Millisecond)
			}
			if r.IntN(4) == 0 {
				return errUndo
			}
			return nil
		})
		if err != nil && !errors.Is(err, errUndo) {
			s.Error(err)
			return
		}
	}
}

// send writes a message, sometimes in a subtransaction that is undone. Slots take turns. So do the writers of a key.
func (s *storm) send(tx pgx.Tx, r *rand.Rand, key *string) error {
	ctx := s.Context()
	if key != nil {
		const lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))"
		if _, err := tx.Exec(ctx, lock, s.name+" "+*key); err != nil {
			return err
		}
	}
	n := s.payload.Add(1)
	payload := fmt.Sprint(n)
	sub, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := sub.Exec(ctx, "INSERT INTO "+s.name+" (slot, topic, key, payload) VALUES ($1, 'topic', $2, $3)",
		n/50%8, key, []byte(payload)); err != nil {
		return err
	}
	if _, err := sub.Exec(ctx, "INSERT INTO sent (payload, key) VALUES ($1, $2)", payload, key); err != nil {
		return err
	}
	if r.IntN(8) == 0 {
		return sub.Rollback(ctx)
	}
	return sub.Commit(ctx)
}

// consume is one consumer after another, each of which dies at some point.
func (s *storm) consume(ctx context.Context, subscription string) {
	r := s.random()
	token := uuid.New()
	for ctx.Err() == nil {
		config := s.Pool.Config().ConnConfig.Copy()
		config.RuntimeParams["application_name"] = s.consumers()
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			if ctx.Err() == nil {
				s.Error(err)
			}
			return
		}
		c := &consumer{storm: s, r: r, conn: conn, subscription: subscription, token: token, n: 1 + r.IntN(maxPage)}
		for ctx.Err() == nil && c.page(ctx) == nil {
		}
		s.deaths.Add(1)
		_ = conn.Close(context.WithoutCancel(ctx))
		if token = c.token; r.IntN(2) == 0 {
			token = uuid.New() // else its successor knows the token
		}
	}
}

type consumer struct {
	*storm
	r            *rand.Rand
	conn         *pgx.Conn
	subscription string
	token        uuid.UUID
	n            int
}

var errDies = errors.New("the consumer dies")

// page ticks, fetches a page, handles it and settles it, in parts.
func (c *consumer) page(ctx context.Context) error {
	if _, err := c.conn.Exec(ctx, "CALL "+c.name+"_tick()"); err != nil {
		return err
	}
	p, err := fetch(ctx, c.conn, c.name, c.subscription, c.token, workqueue.MinLease, c.n)
	if err != nil {
		c.token = uuid.New() // the batch of a former consumer may have ended
		return err
	}
	if p.upto == 0 {
		if !p.more {
			pgtest.Pass(time.Duration(c.r.IntN(20)) * time.Millisecond)
		}
		return nil
	}
	var failed []failure
	bad := map[string]bool{}
	for i, m := range p.messages {
		switch {
		case c.r.IntN(150) == 0:
			return errDies
		case c.r.IntN(300) == 0: // it hangs for longer than its lease, and goes on
			pgtest.Pass(workqueue.MinLease + 200*time.Millisecond)
		}
		switch {
		case bad[m.Key]:
			continue
		case c.subscription == "fails" && c.r.IntN(30) == 0:
			c.failures.Add(1)
			failed = append(failed, failure{Seq: m.Seq, Error: "by chance", Delay: c.r.Float64() / 10})
			if m.Key != "" {
				bad[m.Key] = true
			}
		default:
			if handled, err := c.handle(ctx, m); err != nil || !handled {
				c.token = uuid.New()
				return cmp.Or(err, errDies)
			}
		}
		if c.r.IntN(15) == 0 && i < len(p.messages)-1 {
			if result, err := settle(ctx, c.conn, c.name, c.subscription, c.token, m.Seq, failed...); err != nil ||
				result == "lost" {
				c.token = uuid.New()
				return cmp.Or(err, errDies)
			}
			failed = nil
		}
	}
	result, err := settle(ctx, c.conn, c.name, c.subscription, c.token, p.upto, failed...)
	if result != "settled" {
		c.token = uuid.New()
	}
	return err
}

// handle has an effect where tokens are checked, as in a system that knows the lease: a consumer that has lost it has
// no effect any more.
func (c *consumer) handle(ctx context.Context, m message) (handled bool, err error) {
	tag, err := c.conn.Exec(ctx, "INSERT INTO effect (subscription, payload) SELECT $1, $2 WHERE EXISTS (SELECT FROM "+
		c.name+"_position WHERE subscription = $1 AND owner_token = $3 AND locked_until > clock_timestamp() FOR SHARE)",
		c.subscription, m.Payload, c.token)
	return tag.RowsAffected() == 1, err
}

// handleParked runs parked messages, some of which fail again.
func (s *storm) handleParked(ctx context.Context, subscription string) {
	r, mu := s.random(), sync.Mutex{}
	w, err := workqueue.NewWorker(s.Pool, s.parking(subscription),
		func(ctx context.Context, c *workqueue.Claim[log.Parked]) error {
			mu.Lock()
			fails := r.IntN(5) == 0
			mu.Unlock()
			if fails {
				return workqueue.RetryAfter(10*time.Millisecond, errUndo)
			}
			return c.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO effect (subscription, payload) VALUES ($1, $2)", subscription,
					string(c.Body.Payload))
				return err
			})
		}, workqueue.WorkerOptions{Concurrency: 4})
	if err != nil {
		s.Error(err)
		return
	}
	if err := w.Run(ctx); err != nil {
		s.Error(err)
	}
}

// disturb ends sessions of consumers, deletes ticks and empties slots. Verbs pause subscriptions, take pages from their
// consumers, and go back to what is kept.
func (s *storm) disturb(ctx context.Context) {
	r := s.random()
	for ctx.Err() == nil {
		pgtest.Pass(time.Duration(10+r.IntN(50)) * time.Millisecond)
		var err error
		what := r.IntN(3)
		if s.hasVerbs && !s.noVerbs.Load() {
			what = r.IntN(6)
		}
		name := []string{"plain", "lanes", "fails"}[r.IntN(3)]
		switch what {
		case 3:
			if _, err = s.Pool.Exec(ctx, "SELECT "+s.name+"_pause($1)", name); err == nil {
				pgtest.Pass(time.Duration(r.IntN(50)) * time.Millisecond)
				_, err = s.Pool.Exec(context.WithoutCancel(ctx), "SELECT "+s.name+"_resume($1)", name)
			}
		case 4:
			_, err = s.Pool.Exec(ctx, "SELECT "+s.name+"_change($1, '{topic,none.*}', NULL)", name)
		case 5:
			_, err = s.Pool.Exec(ctx, "SELECT "+s.name+"_replay($1, '-infinity')", name)
		case 0:
			_, err = s.Pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
				WHERE application_name = $1 ORDER BY random() LIMIT 1) AS one`, s.consumers())
		case 1:
			_, err = s.Pool.Exec(ctx, "DELETE FROM "+s.name+"_tick WHERE random() < 0.3")
		default:
			var n int64
			if err = s.Pool.QueryRow(ctx, "CALL "+s.name+"_trim('0')").Scan(&n); err == nil {
				s.emptied.Add(n)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.Error(err)
			return
		}
	}
}

// reconcile compares what was handled with what was committed.
func (s *storm) reconcile() {
	rows, err := s.Pool.Query(s.Context(), "SELECT payload, coalesce(key, '') FROM sent ORDER BY n")
	s.ok(err)
	type message struct{ payload, key string }
	sent, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m message, err error) {
		return m, row.Scan(&m.payload, &m.key)
	})
	s.ok(err)
	keys := map[string]string{}
	order := map[string][]string{}
	for _, m := range sent {
		keys[m.payload] = m.key
		order[m.key] = append(order[m.key], m.payload)
	}
	for _, subscription := range []string{"plain", "lanes", "fails"} {
		handled := value[[]string](s.fixture, s.Pool, `SELECT array_agg(payload ORDER BY n) FROM (
			SELECT payload, min(n) AS n FROM effect WHERE subscription = $1 GROUP BY payload) AS first`, subscription)
		if len(handled) != len(sent) {
			s.Errorf("%s handled %d messages, %d were committed", subscription, len(handled), len(sent))
		}
		got := map[string][]string{}
		for _, payload := range handled {
			key, known := keys[payload]
			if !known {
				s.Errorf("%s handled %s, which was not committed", subscription, payload)
			}
			got[key] = append(got[key], payload)
		}
		for key, want := range order {
			if key == "" {
				slices.Sort(got[key])
				slices.Sort(want)
			}
			if !slices.Equal(got[key], want) {
				s.Errorf("%s, key %q: handled %v, committed %v", subscription, key, got[key], want)
			}
		}
	}
}
