package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// Ordered messages wait until a note is folded. While an announcer is awake, producers announce neither their messages
// nor their notes. The relay, which polls once an hour, must still be told of both, and deliver in the order of each
// key.
func TestOrderedMessagesOfSilentProducers(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	var mu sync.Mutex
	seen := map[string][]string{}
	f.relay(workqueue.WorkerOptions{PollInterval: time.Hour}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, d *outbox.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			seen[d.Key] = append(seen[d.Key], string(d.Payload))
			return nil
		})
	})
	const producers = 4
	messages := pgtest.Size(40, 120)
	silent := 0
	for burst := range 3 {
		var crew sync.WaitGroup
		for p := range producers {
			crew.Go(func() {
				key := fmt.Sprintf("account-%d", p)
				for i := range messages {
					err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
						_, err := f.box.Enqueue(f.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "t", Key: key,
							Payload: fmt.Appendf(nil, "%06d", burst*messages+i)})
						if err != nil {
							return err
						}
						var quiet bool // it holds the lock of transactions that may be silent
						err = tx.QueryRow(f.Context(),
							`SELECT EXISTS (SELECT FROM pg_locks AS l, hashtextextended($1 || ' silent', 0) AS k (lock)
							WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.objsubid = 1
							  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid)`, f.table).Scan(&quiet)
						mu.Lock()
						defer mu.Unlock()
						if quiet {
							silent++
						}
						return err
					})
					if err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
		crew.Wait()
		f.until("all messages are delivered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for _, s := range seen {
				n += len(s)
			}
			return n == (burst+1)*producers*messages
		})
		pgtest.Pass(time.Duration(burst) * 1200 * time.Millisecond)
	}
	for key, payloads := range seen {
		for i, p := range payloads {
			if p != fmt.Sprintf("%06d", i) {
				t.Fatalf("%s: message %d is %s", key, i, p)
			}
		}
	}
	if silent == 0 {
		t.Error("no transaction was silent: nothing is shown")
	}
	t.Logf("%d of %d transactions were silent", silent, 3*producers*messages)
}

// An announcer sees notes and announces them sooner than after the second in which it would do so in any case.
func TestNotesOfSilentProducersAreAnnounced(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.relay(workqueue.WorkerOptions{PollInterval: time.Hour}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	})
	conn, err := pgx.Connect(t.Context(), f.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), fmt.Sprintf("LISTEN %q", f.table)); err != nil {
		t.Fatal(err)
	}
	producing, stop := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	defer producers.Wait()
	defer stop()
	for p := range 4 {
		producers.Go(func() {
			for producing.Err() == nil {
				err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
					_, err := f.box.Enqueue(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "t",
						Key: fmt.Sprintf("account-%d", p)})
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	limited, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := map[uint32]time.Time{} // the last notification of notes, by session
	for {
		n, err := conn.WaitForNotification(limited)
		if err != nil {
			t.Fatalf("waiting for two announcements of notes within half a second: %v", err)
		}
		if !strings.HasPrefix(n.Payload, "note:") || int(n.PID) != f.announcer(t) {
			continue
		}
		if time.Since(last[n.PID]) < 500*time.Millisecond {
			return
		}
		last[n.PID] = time.Now()
	}
}

// announcer returns the pid of the session that is the announcer, or 0 if there is none.
func (f *fixture) announcer(t *testing.T) (pid int) {
	t.Helper()
	err := f.Pool.QueryRow(t.Context(),
		`SELECT coalesce(max(l.pid), 0) FROM pg_locks AS l, hashtextextended($1 || ' announcer', 0) AS k (lock)
		WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1
		  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid`, f.table).Scan(&pid)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
