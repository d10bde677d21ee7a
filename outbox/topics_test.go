package outbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

func (f *fixture) pause(topic string) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) error { return f.box.Pause(f.Context(), workqueue.Pgx(tx), topic) })
}

func (f *fixture) resume(topic string) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) error { return f.box.Resume(f.Context(), workqueue.Pgx(tx), topic) })
}

func (f *fixture) topics() (list []topics.Info) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) (err error) {
		list, err = f.box.Topics(f.Context(), workqueue.Pgx(tx))
		return err
	})
	return list
}

// sendMany writes messages of a topic whose payload is their number, each due a microsecond after the one before.
func (f *fixture) sendMany(topic string, n int) {
	f.Helper()
	f.exec("INSERT INTO "+f.table+" (topic, payload, due_at) SELECT $1, convert_to(i::text, 'UTF8'), "+
		"now() - interval '1 hour' + i * interval '1 microsecond' FROM generate_series(1, $2::int) AS i", topic, n)
}

// deliveries has the payloads that were delivered, by topic.
type deliveries struct {
	mu  sync.Mutex
	got map[string][]string
}

func (l *deliveries) handle(_ context.Context, m *outbox.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.got == nil {
		l.got = map[string][]string{}
	}
	l.got[m.Topic] = append(l.got[m.Topic], string(m.Payload))
	return nil
}

func (l *deliveries) of(topic string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got[topic])
}

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i+1))
	}
	return all
}

// rest gives a relay time to do what it must not do.
func rest(d time.Duration) { time.Sleep(d) }

// A paused topic is not claimed by any way in, and its rows come back in their order.
func TestAPausedTopic(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.pause("sick")
	f.sendMany("sick", 2500)
	f.sendMany("well", 30)
	rows, err := f.box.Table().On(f.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
	if err != nil || len(rows) != 10 {
		t.Fatalf("claimed %d rows, %v: a claim passes over a thousand paused rows and more", len(rows), err)
	}
	fetch := f.table + "_fetch('00000000-002a-8000-8000-000000000000', '60 s', 20)"
	if n := f.count("SELECT count(*) FROM " + fetch + " WHERE topic = 'well'"); n != 20 {
		t.Errorf("the SQL function claimed %d rows of another topic, want 20", n)
	}
	if n := f.count("SELECT count(id) FROM " + fetch); n != 0 {
		t.Errorf("the SQL function claimed %d rows of a paused topic", n)
	}
	list := f.topics()
	if len(list) != 1 || list[0].Topic != "sick" || !list[0].Paused || list[0].Aside != 2500 ||
		list[0].Oldest < time.Hour-time.Second {
		t.Errorf("the topics are %+v", list)
	}
	f.resume("sick")
	var got []uuid.UUID
	f.until("the rows of the resumed topic", func() bool {
		rows, err := f.box.Table().On(f.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			got = append(got, row.ID)
		}
		return len(got) == 2500
	})
	if n := f.count("SELECT count(*) FROM unnest($1::uuid[]) WITH ORDINALITY AS u (id, place) JOIN "+f.table+
		" AS r USING (id) WHERE r.topic = 'sick' AND convert_from(r.payload, 'UTF8') = u.place::text", got); n != 2500 {
		t.Errorf("%d of 2500 rows came in their order", n)
	}
	if list := f.topics(); len(list) != 0 {
		t.Errorf("the topics are %+v", list)
	}
}

// A running relay notices a pause and its end, with and without notifications.
func TestARelayObeysAPause(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]workqueue.WorkerOptions{"listening": {}, "polling": {NoListen: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			o.Concurrency = 1
			var got deliveries
			f.relay(o, func(r *outbox.Relay) { r.HandleAll(got.handle) })
			f.sendMany("a", 5)
			f.until("the first rows", func() bool { return len(got.of("a")) == 5 })
			f.pause("a")
			rest(700 * time.Millisecond) // half a second is what it may take without notifications
			f.exec("INSERT INTO " + f.table + " (topic, payload) VALUES ('a', '6'), ('b', '1')")
			f.until("another topic", func() bool { return len(got.of("b")) == 1 })
			if n := len(got.of("a")); n != 5 {
				t.Errorf("%d rows of the paused topic were delivered, want 5", n)
			}
			f.resume("a")
			f.until("the rest", func() bool { return len(got.of("a")) == 6 })
		})
	}
}

// A drain leaves what is paused and ends, and delivers it after the resume.
func TestADrainLeavesPausedTopics(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.pause("sick")
	f.sendMany("sick", 1200)
	f.sendMany("well", 3)
	var got deliveries
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.HandleAll(got.handle)
	d, err := r.Drain()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.Process(t.Context()); err != nil || n != 3 {
		t.Errorf("the drain handled %d rows, %v, want 3", n, err)
	}
	f.resume("sick")
	if n, err := d.Process(t.Context()); err != nil || n != 1200 {
		t.Errorf("the drain handled %d rows, %v, want 1200", n, err)
	}
}

// Rows of ordered keys keep their order although a pause sets some aside, and hold their key meanwhile.
func TestOrderedRowsOfAPausedTopic(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	var got deliveries
	var order []string
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
			_ = got.handle(ctx, m)
			got.mu.Lock()
			defer got.mu.Unlock()
			order = append(order, string(m.Payload))
			return nil
		})
	})
	f.pause("a")
	rest(700 * time.Millisecond)
	message := func(topic, payload string) outbox.Message {
		return outbox.Message{Topic: topic, Key: "k", Payload: []byte(payload)}
	}
	f.enqueue(message("b", "1"), message("a", "2"), message("b", "3"), message("a", "4"))
	f.enqueue(outbox.Message{Topic: "b", Key: "other", Payload: []byte("x")})
	f.until("the first row and another key", func() bool { return len(got.of("b")) == 2 })
	f.until("the second row is aside", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE aside AND waiting") == 1
	})
	for range 3 { // folds and sweeps leave the row where it is
		f.exec("UPDATE " + f.table + "_key_cursor SET swept_at = '-infinity'")
		f.exec("SELECT " + f.table + "_key_sweep(1000)")
		f.exec("CALL " + f.table + "_fold()")
	}
	rest(300 * time.Millisecond)
	if n := len(got.of("b")) + len(got.of("a")); n != 2 {
		t.Errorf("%d rows were delivered during the pause, want 2", n)
	}
	f.resume("a")
	f.until("the rest", func() bool { return len(got.of("a")) == 2 && len(got.of("b")) == 3 })
	order = slices.DeleteFunc(order, func(p string) bool { return p == "x" })
	if !slices.Equal(order, numbers(4)) {
		t.Errorf("the order of the key was %v", order)
	}
}

// What operators do with rows that are aside.
func TestRowsAsideAreOperated(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.pause("a")
	ids := f.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "a", Key: "k"},
		outbox.Message{Topic: "b", Key: "k"})
	q := f.box.Table().On(f.Pool)
	claim := func() int {
		rows, err := q.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
		if _, foldErr := q.Fold(t.Context()); err != nil || foldErr != nil {
			t.Fatal(err, foldErr)
		}
		return len(rows)
	}
	claim()
	claim()
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE aside"); n != 2 {
		t.Fatalf("%d rows are aside, want 2", n)
	}
	if s, err := q.Stats(t.Context()); err != nil || s.Ready != 0 || s.Waiting != 3 {
		t.Errorf("%+v, %v: rows aside wait", s, err)
	}
	if got, err := q.Cancel(t.Context(), ids[:2], "enough"); err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if list := f.topics(); len(list) != 1 || list[0].Aside != 0 {
		t.Errorf("after the cancel the topics are %+v", list)
	}
	claim() // folds
	if n := claim(); n != 1 {
		t.Errorf("the key of a cancelled row went on with %d rows, want 1", n)
	}
	if got, err := q.Redrive(t.Context(), ids[:2], ""); err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	f.resume("a")
	claim()
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE status = 1"); n < 2 {
		t.Errorf("%d rows run after redrive and resume, want 2 at least", n)
	}
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE aside"); n != 0 {
		t.Errorf("%d rows are still aside", n)
	}
}

// Rows that a process has set aside are found by others after its death.
func TestRowsAsideAreFoundByOthers(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	var got deliveries
	f.relay(workqueue.WorkerOptions{NoListen: true}, func(r *outbox.Relay) { r.HandleAll(got.handle) })
	f.sendMany("a", 1)
	f.until("the relay runs", func() bool { return len(got.of("a")) == 1 })
	f.exec("INSERT INTO " + f.table + " (topic, payload, waiting, aside) VALUES ('b', '1', true, true)")
	f.until("a row that nobody announced", func() bool { return len(got.of("b")) == 1 })
}

// Claims beside a million rows of a paused topic read the pages that they read without them.
func TestPausedRowsCostNoScan(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	claims := func() (pages float64) {
		f.exec("DELETE FROM " + f.table + " WHERE topic = 'well'") // rows in progress would be passed over, too
		f.sendMany("well", 2000)
		f.exec("VACUUM ANALYZE " + f.table)
		for range 20 {
			var plans []struct {
				Plan struct {
					Hit  int `json:"Shared Hit Blocks"`
					Read int `json:"Shared Read Blocks"`
				}
			}
			if err := f.Pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT "+f.table+
				"_fetch('00000000-002a-8000-8000-000000000000', '60 s', 20)").Scan(&plans); err != nil {
				t.Fatal(err)
			}
			pages += float64(plans[0].Plan.Hit+plans[0].Plan.Read) / 20
		}
		return pages
	}
	alone := claims()
	f.pause("sick")
	f.sendMany("sick", pgtest.Size(1_000, 10_000))
	for f.count("SELECT count(*) FROM "+f.table+" WHERE topic = 'sick' AND NOT waiting") > 0 {
		f.exec("SELECT " + f.table + "_fetch('00000000-002a-8000-8000-000000000000', '60 s', 1)")
	}
	f.exec("INSERT INTO "+f.table+" (topic, payload, waiting, aside) "+
		"SELECT 'sick', '', true, true FROM generate_series(1, $1::int)", pgtest.Size(0, 190_000))
	beside := claims()
	t.Logf("a claim of 20 rows reads %.1f pages, and %.1f beside paused rows", alone, beside)
	if beside > 2*alone { // other tests' transactions keep vacuum from some; the rows themselves are thousands of pages
		t.Errorf("a claim reads %.1f pages beside paused rows, and %.1f without them", beside, alone)
	}
}

// What cannot be a topic is refused by every way in.
func TestNamesOfTopicsThatArePaused(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	for _, name := range []string{"", strings.Repeat("ä", 128)} {
		for _, function := range []string{"_pause", "_resume"} {
			_, err := f.Pool.Exec(t.Context(), "SELECT "+f.table+function+"($1)", name)
			if err == nil || !strings.Contains(err.Error(), "topic must have 1 to 255 bytes") {
				t.Errorf("%s of a topic of %d bytes: %v", function, len(name), err)
			}
		}
		for _, change := range []func(context.Context, workqueue.Tx, string) error{f.box.Pause, f.box.Resume} {
			err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
				return change(t.Context(), workqueue.Pgx(tx), name)
			})
			if err == nil || !strings.Contains(err.Error(), "topic") {
				t.Errorf("a topic of %d bytes: %v", len(name), err)
			}
		}
	}
	for _, odd := range []string{"*", "ä'\"\\; --", "a\nb", strings.Repeat("x", 255)} {
		f.pause(odd)
		if list := f.topics(); len(list) != 1 || list[0].Topic != odd {
			t.Errorf("the topics are %+v, want %q", list, odd)
		}
		f.resume(odd)
	}
}

// SQL can write topics that are longer than any index bears. If their handlers hang, other topics go on.
func TestTopicsThatAreTooLongForALane(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	var got deliveries
	release := make(chan struct{})
	f.relay(workqueue.WorkerOptions{Concurrency: 8}, func(r *outbox.Relay) {
		r.Handle("well", got.handle)
		r.HandleAll(func(context.Context, *outbox.Delivery) error { <-release; return nil })
	})
	t.Cleanup(func() { close(release) })
	long := make([]byte, 4000) // compressed, a topic of one letter would fit
	rand.NewChaCha8([32]byte{}).Read(long)
	f.exec("INSERT INTO "+f.table+" (topic, payload) SELECT encode($1::bytea, 'hex'), '' FROM generate_series(1, 40)", long)
	f.until("the long topic hangs", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE status = 1") >= 2
	})
	rest(time.Second) // after that its rows would be set aside
	f.sendMany("well", 5)
	f.until("the other topic", func() bool { return len(got.of("well")) == 5 })
}

// However many topics have rows aside, a bounded number of rows is counted and of topics named.
func TestTopicsAreCountedWithinABound(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.exec("INSERT INTO " + f.table + " (topic, payload, waiting, aside) SELECT 't' || i % 30, '', true, true " +
		"FROM generate_series(1, 600) AS i")
	f.exec("INSERT INTO " + f.table + "_topic (topic, paused) SELECT 'p' || i, true FROM generate_series(1, 5) AS i")
	for _, test := range []struct{ most, aside, rows, more, paused int }{
		{1, 1, 1, 1, 1}, {10, 10, 10, 10, 5}, {105, 30, 3 * 30, 30, 5}, {10_000, 30, 600, 0, 5},
	} {
		var aside, rows, more, paused int
		err := f.Pool.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE aside > 0), coalesce(sum(aside), 0)::int, "+
			"count(*) FILTER (WHERE more AND aside > 0), count(*) FILTER (WHERE paused) FROM "+f.table+"_topics($1)",
			test.most).Scan(&aside, &rows, &more, &paused)
		if err != nil || aside != test.aside || rows != test.rows || more != test.more || paused != test.paused {
			t.Errorf("of at most %d: %d topics with %d rows aside, of which %d may have more, and %d paused (%v), want %+v",
				test.most, aside, rows, more, paused, err, test)
		}
	}
}

// A topic that was paused twice has been paused since the first time, and its state tells whether a call changed it.
func TestAPauseOfAPausedTopic(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	change := func(function string) (changed bool) {
		t.Helper()
		if err := f.Pool.QueryRow(t.Context(), "SELECT "+f.table+"_"+function+"('t')").Scan(&changed); err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if change("resume") {
		t.Error("a topic without a state was resumed")
	}
	if !change("pause") {
		t.Error("the first pause changed nothing")
	}
	since := f.topics()[0].ChangedAt
	if change("pause") {
		t.Error("the second pause changed something")
	}
	if again := f.topics()[0].ChangedAt; !again.Equal(since) {
		t.Errorf("the second pause moved the time of the first from %v to %v", since, again)
	}
	if !change("resume") {
		t.Error("the resume changed nothing")
	}
	if n := f.count("SELECT count(*) FROM "+f.table+"_topic WHERE NOT paused AND changed_at > $1", since); n != 1 {
		t.Error("the resume is not recorded with its time")
	}
	if change("resume") || !change("pause") {
		t.Error("the second resume changed something, or the pause after it nothing")
	}
	for _, name := range []string{"", strings.Repeat("x", 256)} {
		_, err := f.Pool.Exec(t.Context(), "INSERT INTO "+f.table+"_topic (topic, paused) VALUES ($1, true)", name)
		if err == nil || !strings.Contains(err.Error(), "23514") {
			t.Errorf("a topic of %d bytes was written without the functions: %v", len(name), err)
		}
	}
}
