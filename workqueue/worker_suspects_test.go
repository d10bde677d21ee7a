package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// Rows that end their process end as dead letters, and none of the rows beside them does. The poison is found by the
// fourth death at the latest, and then uses up its attempts alone.
func TestPoisonHarmsNoNeighbour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		poisons int
		topic   string
		workers int
	}{{1, "poison", 1}, {2, "poison", 1}, {1, "slow poison", 1}, {2, "slow poison", 1}, {1, "poison", 4}} {
		t.Run(fmt.Sprintf("%d %s %d", c.poisons, c.topic, c.workers), func(t *testing.T) {
			t.Parallel()
			const innocents, attempts = 40, 4
			r := newRig(t, rigOptions{})
			r.exec("INSERT INTO notes (id, topic, payload, max_attempts) SELECT gen_random_uuid(), CASE WHEN n <= $1 THEN "+
				"$4 ELSE 'innocent' END, '', $2 FROM generate_series(1, $1 + $3::int) AS n", c.poisons, attempts, innocents,
				c.topic)
			for deaths := 0; r.count("topic <> 'innocent' AND status <> 3") > 0; deaths++ {
				if deaths == c.poisons*(attempts+3) {
					t.Fatalf("the poison is not dead after %d deaths: %s", deaths, *ask[*string](r,
						"SELECT string_agg(notes::text, chr(10)) FROM notes WHERE status <> 2"))
				}
				child, _ := r.spawnChild(childWorkersEnv + "=" + strconv.Itoa(c.workers))
				var exit *exec.ExitError
				if err := r.awaitChild(child); !errors.As(err, &exit) || exit.ExitCode() != poisoned {
					t.Fatalf("the process ended with %v", err)
				}
				// Its last claim may still be on its way: a server ends the statement of a client that is gone.
				r.eventually("the connections of the process to end", func() bool {
					return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1",
						childName(r.Schema)) == 0
				})
				r.exec("UPDATE notes SET locked_until = now() - interval '1 s' WHERE status = 1")
				reap(r, 1000)
				r.exec("UPDATE notes SET due_at = CASE topic WHEN 'innocent' THEN now() ELSE now() - interval '1 s' END " +
					"WHERE status = 0")
			}
			if n := r.count("topic = 'innocent' AND status = 3"); n != 0 {
				t.Fatalf("%d innocent rows are dead letters", n)
			}
			r.start(workqueue.WorkerOptions{}, ackAll)
			r.eventually("the innocent", func() bool {
				return r.count("topic = 'innocent' AND status = 2") == innocents
			})
			if n := r.count("topic = 'innocent' AND attempts > 1"); n != 0 {
				t.Errorf("%d innocent rows used up an attempt", n)
			}
		})
	}
}

// suspects inserts rows that have lost so many leases.
func (r *rig) suspects(topic string, n int, alone, together string) {
	r.Helper()
	r.exec("INSERT INTO notes (id, topic, payload, headers) SELECT gen_random_uuid(), $1, '', jsonb_build_object("+
		"'txwork-lost-alone', $3::text, 'txwork-lost-together', $4::text, 'txwork-lost-at', "+
		"to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')) FROM generate_series(1, $2::int)",
		topic, n, alone, together)
}

// meter measures how many handlers run while one of a suspect does. Handlers wait for others, so that a slow machine
// starts as many as may run.
type meter struct {
	width    int // of the suspects
	mu       sync.Mutex
	running  map[uuid.UUID]bool // whether it is a suspect
	most     int                // that ran at once
	mostNear int                // with a suspect among them
}

func (m *meter) handle(_ context.Context, c *noteClaim) error {
	m.mu.Lock()
	if m.running == nil {
		m.running = map[uuid.UUID]bool{}
	}
	m.running[c.ID] = strings.HasPrefix(c.Body.Topic, "suspect")
	m.most = max(m.most, len(m.running))
	for _, suspect := range m.running {
		if suspect {
			m.mostNear = max(m.mostNear, len(m.running))
		}
	}
	m.mu.Unlock()
	for range 200 { // less than a suspect waits for room
		pgtest.Pass(10 * time.Millisecond)
		if m.reached(c.ID) {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, c.ID)
	return nil
}

// reached reports whether as many handlers have run at once as may beside a suspect, or more if this is none.
func (m *meter) reached(id uuid.UUID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running[id] {
		return m.mostNear >= m.width
	}
	return m.most > m.width
}

var widths = map[string]struct {
	alone, together string
	width           int
}{
	"once":       {"0", "1", 16},
	"twice":      {"0", "2", 4},
	"three":      {"0", "3", 1},
	"alone":      {"1", "0", 1},
	"no numbers": {"x", "-1", 16},
}

// The more leases a row has lost, the fewer rows run beside it. When the suspects are done, the others run as before.
func TestSuspectsRunBesideFew(t *testing.T) {
	t.Parallel()
	for name, c := range widths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			n := 3 * c.width
			r.insertMany("before", 30)
			r.suspects("suspect", n, c.alone, c.together)
			r.insertMany("after", 30)
			m := meter{width: c.width}
			r.start(workqueue.WorkerOptions{Concurrency: 30}, m.handle)
			r.eventually("all rows", func() bool { return r.count("status = 2 AND attempts = 1") == n+60 })
			if m.mostNear != c.width {
				t.Errorf("%d rows ran while a suspect did, want %d", m.mostNear, c.width)
			}
			if m.most <= c.width {
				t.Errorf("%d rows ran at once", m.most)
			}
		})
	}
}

// A Drain narrows its batches.
func TestDrainRunsSuspectsBesideFew(t *testing.T) {
	t.Parallel()
	for name, c := range widths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			n := 2*c.width + 1
			r.insertMany("before", 30)
			r.suspects("suspect", n, c.alone, c.together)
			r.insertMany("after", 30)
			m := meter{width: c.width}
			w, err := workqueue.NewWorker(r.Pool, r.Domain, m.handle, workqueue.WorkerOptions{Concurrency: 30})
			if err != nil {
				t.Fatal(err)
			}
			d, err := w.Drain()
			if err != nil {
				t.Fatal(err)
			}
			if handled, err := d.Process(t.Context()); err != nil || handled != n+60 {
				t.Errorf("handled %d, %v, want %d", handled, err, n+60)
			}
			if m.mostNear != c.width || r.count("status = 2 AND attempts = 1") != n+60 {
				t.Errorf("%d rows ran while a suspect did, want %d", m.mostNear, c.width)
			}
		})
	}
}

// isBack is a suspect that was claimed and put back.
const isBack = "topic = 'suspect' AND status = 0 AND attempts = 0 AND owner_token IS NOT NULL"

// A suspect waits for rows that run, and nothing else starts meanwhile, but not for ever. It is not claimed while it
// waits, since a row that runs may end the process. Its worker can stop.
func TestSuspectWaits(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"until they end": true, "for a while": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			started, release := make(chan string, 10), make(chan struct{})
			t.Cleanup(sync.OnceFunc(func() {
				select {
				case <-release:
				default:
					close(release)
				}
			}))
			w := r.start(workqueue.WorkerOptions{}, func(_ context.Context, c *noteClaim) error {
				started <- c.Body.Topic
				if c.Body.Topic == "long" {
					<-release
				}
				return nil
			})
			r.insert("long")
			receive(t, started, "the long handler")
			r.suspects("suspect", 1, "0", "3")
			r.eventually("the suspect to be put back", func() bool { return r.count(isBack) == 1 })
			r.insert("other")
			w.Wake()
			if ends {
				if n := r.count("topic <> 'long' AND status = 1"); n != 0 {
					t.Errorf("%d other rows are in progress", n)
				}
				close(release)
			}
			if topic := receive(t, started, "a handler"); topic != "suspect" {
				t.Errorf("%s ran first", topic)
			}
			if topic := receive(t, started, "another handler"); topic != "other" {
				t.Errorf("%s ran then", topic)
			}
		})
	}
	t.Run("until its worker stops", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, rigOptions{})
		started := make(chan struct{}, 1)
		release := make(chan struct{})
		w := r.start(workqueue.WorkerOptions{}, func(context.Context, *noteClaim) error {
			started <- struct{}{}
			<-release
			return nil
		})
		r.insert("long")
		receive(t, started, "the long handler")
		r.suspects("suspect", 1, "0", "3")
		r.eventually("the suspect to be put back", func() bool { return r.count(isBack) == 1 })
		w.cancel()
		close(release)
		if err := w.wait(t); err != nil {
			t.Error(err)
		}
	})
}

// Another process may take a suspect for which a worker keeps room. Then the worker goes on as before.
func TestARoomIsNotKeptForARowThatIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	started, release := make(chan string, 10), make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	r.start(workqueue.WorkerOptions{Concurrency: 3}, func(ctx context.Context, c *noteClaim) error {
		started <- c.Body.Topic
		if c.Body.Topic != "first" {
			<-release
		}
		return nil
	})
	r.suspects("first", 1, "0", "1")
	receive(t, started, "the first handler")
	r.insert("long")
	receive(t, started, "the long handler")
	r.suspects("suspect", 1, "0", "3")
	r.eventually("the suspect to be put back", func() bool { return r.count(isBack) == 1 })
	r.exec("DELETE FROM notes WHERE topic = 'suspect'")
	release <- struct{}{}
	r.insertMany("other", 3)
	for range 3 {
		receive(t, started, "a handler beside others")
	}
}
