package outbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const away = "dial tcp: connection refused"

// A held claim is what a worker has in hand.
type heldClaim struct {
	token uuid.UUID
	ids   []uuid.UUID
}

func (f *fixture) claim(limit int) heldClaim {
	f.Helper()
	token := workqueue.NewOwnerToken()
	rows, err := f.box.Table().On(f.Pool).Claim(f.Context(), token, time.Minute, limit)
	if err != nil {
		f.Fatal(err)
	}
	c := heldClaim{token: token}
	for _, row := range rows {
		c.ids = append(c.ids, row.ID)
	}
	return c
}

func (f *fixture) unavailable(c heldClaim, ids ...uuid.UUID) {
	f.Helper()
	if _, err := f.box.Table().On(f.Pool).Unavailable(f.Context(), c.token, ids, away); err != nil {
		f.Fatal(err)
	}
}

// A restingTopic is the state of a topic whose destination is unavailable.
type restingTopic struct {
	rest, left time.Duration
	cause      string
	version    string
}

// resting reads the state of a topic; false: it does not rest.
func (f *fixture) resting(topic string) (s restingTopic, is bool) {
	f.Helper()
	var rest, left float64
	err := f.Pool.QueryRow(f.Context(), `SELECT coalesce(extract(epoch FROM rest), 0)::float8,
		coalesce(extract(epoch FROM rests_until - clock_timestamp()), 0)::float8, coalesce(cause, ''), ctid::text,
		unavailable_since IS NOT NULL FROM `+f.table+`_topic WHERE topic = $1`, topic).Scan(&rest, &left, &s.cause,
		&s.version, &is)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		f.Fatal(err)
	}
	s.rest, s.left = time.Duration(rest*float64(time.Second)), time.Duration(left*float64(time.Second))
	return s, is
}

// rested ends the rest of a topic now.
func (f *fixture) rested(topic string) {
	f.Helper()
	f.exec("UPDATE "+f.table+"_topic SET rests_until = clock_timestamp() - interval '1 ms' WHERE topic = $1 AND "+
		"unavailable_since IS NOT NULL", topic)
}

func (f *fixture) topicOf(id uuid.UUID) string { return f.row(id).Topic }

// A topic whose destination is unavailable rests. Its messages keep their attempts, their place and their order, and
// are probed one by one; the rest doubles up to ten seconds. Other topics go on.
func TestATopicRestsWhileItsDestinationIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 5)
	hand := f.claim(2)
	before := f.count("SELECT count(*) FROM " + f.table + " WHERE due_at < now() - interval '59 minutes'")
	f.unavailable(hand, hand.ids[0])
	s, is := f.resting("sick")
	if !is || s.rest != 500*time.Millisecond || s.left > s.rest || s.cause != away {
		t.Fatalf("the topic rests: %v, %+v", is, s)
	}
	f.unavailable(hand, hand.ids[1]) // it was in hand and says nothing new
	if again, _ := f.resting("sick"); again.version != s.version {
		t.Error("a second message wrote the state of the topic")
	}
	for _, id := range hand.ids {
		if r := f.row(id); r.Status != workqueue.Ready || r.Attempts != 0 || len(r.LastError) <= len(away) {
			t.Errorf("put back as %+v", r)
		}
	}
	f.sendMany("well", 3)
	f.exec("UPDATE " + f.table + "_topic SET rests_until = now() + interval '9 s'") // this test is slow
	if c := f.claim(10); len(c.ids) != 3 || f.topicOf(c.ids[0]) != "well" {
		t.Errorf("claimed %d rows during the rest, want 3 of the other topic", len(c.ids))
	}

	want := 500 * time.Millisecond
	for range 7 {
		f.rested("sick")
		probe := f.claim(10)
		if len(probe.ids) != 1 || probe.ids[0] != hand.ids[0] {
			t.Fatalf("probes are %v, want the first message %v", probe.ids, hand.ids[0])
		}
		if c := f.claim(10); len(c.ids) != 0 {
			t.Fatalf("%d rows were claimed beside a probe", len(c.ids))
		}
		want = min(2*want, 10*time.Second)
		begun := time.Now()
		f.unavailable(probe, probe.ids...)
		s, is := f.resting("sick")
		if !is || s.rest != want || s.left > want || s.left < want*7/10-time.Since(begun) {
			t.Errorf("rests: %v, %+v, want %v", is, s, want)
		}
	}
	f.rested("sick")
	probe := f.claim(10)
	if _, err := f.box.Table().On(f.Pool).Ack(t.Context(), probe.token, probe.ids); err != nil {
		t.Fatal(err)
	}
	rest := f.claim(10)
	if s, is := f.resting("sick"); is {
		t.Errorf("the topic rests although a probe was delivered: %+v", s)
	}
	if len(rest.ids) != 4 || rest.ids[0] != hand.ids[1] {
		t.Errorf("claimed %v, want the other 4 messages in their order", rest.ids)
	}
	if n := f.count("SELECT max(attempts) FROM " + f.table); n != 1 {
		t.Errorf("%d attempts", n)
	}
	n := f.count("SELECT count(*) FROM " + f.table + " WHERE due_at < now() - interval '59 minutes'")
	if n != before+3 {
		t.Errorf("%d rows kept their due time, want %d", n, before+3)
	}
}

// What became of the message that was the probe says whether the topic opens, whoever settled it, and whatever became
// of who claimed it.
func TestWhatAProbeHasFoundOut(t *testing.T) {
	t.Parallel()
	const (
		opens  = "opens"
		probes = "another probe"
		waits  = "waits"
	)
	settle := func(call string) func(*fixture, heldClaim) {
		return func(f *fixture, c heldClaim) {
			f.exec("SELECT FROM "+f.table+"_"+call, c.token, c.ids)
		}
	}
	for name, c := range map[string]struct {
		ends func(*fixture, heldClaim)
		want string
	}{
		"ack":   {settle("ack($1, $2)"), opens},
		"fail":  {settle("fail($1, $2, 'poison')"), opens},
		"retry": {settle("retry($1, $2, '1 hour', 'poison')"), opens},
		"cancelled": {func(f *fixture, c heldClaim) {
			f.exec("SELECT FROM "+f.table+"_cancel($1, 'no need')", c.ids)
			settle("retry($1, $2, '1 hour', 'context cancelled')")(f, c)
		}, probes},
		"cancelled by its handler": {func(f *fixture, c heldClaim) {
			f.exec("SELECT FROM "+f.table+"_settle(jsonb_build_array(jsonb_build_object('id', $1::uuid, 'token', $2::uuid, "+
				"'outcome', 'cancel', 'error', 'no need')))", c.ids[0], c.token)
		}, probes},
		"cancelled and done": {func(f *fixture, c heldClaim) {
			f.exec("SELECT FROM "+f.table+"_cancel($1, 'no need')", c.ids)
			settle("ack($1, $2)")(f, c)
		}, opens},
		"snooze":  {settle("snooze($1, $2, '1 hour')"), probes},
		"release": {settle("release($1, $2)"), probes},
		"extend":  {settle("extend($1, $2, '1 minute')"), waits},
		"runs":    {func(*fixture, heldClaim) {}, waits},
		"lapsed": {func(f *fixture, c heldClaim) {
			f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '1 s' WHERE id = $1", c.ids[0])
		}, probes},
		"reaped": {func(f *fixture, c heldClaim) {
			f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '1 s' WHERE id = $1", c.ids[0])
			f.exec("SELECT FROM " + f.table + "_reap_expired()")
		}, probes},
		"claimed by others since": {func(f *fixture, c heldClaim) {
			settle("release($1, $2)")(f, c)
			f.exec("UPDATE "+f.table+" SET status = 1, owner_token = gen_random_uuid(), locked_until = now() + "+
				"interval '1 hour' WHERE id = $1", c.ids[0])
		}, probes},
		"deleted": {func(f *fixture, c heldClaim) {
			f.exec("DELETE FROM "+f.table+" WHERE id = $1", c.ids[0])
		}, opens},
		"paused": {func(f *fixture, c heldClaim) {
			settle("ack($1, $2)")(f, c)
			f.pause("sick")
		}, waits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			f.sickness("sick", 5)
			f.rested("sick")
			probe := f.claim(5)
			if len(probe.ids) != 1 {
				t.Fatalf("%d probes", len(probe.ids))
			}
			c.ends(f, probe)
			n := len(f.claim(3).ids)
			if c.want != opens {
				if n > 0 {
					t.Fatalf("%d rows claimed, although the rest begins anew with each probe", n)
				}
				f.rested("sick")
				n = len(f.claim(3).ids)
			}
			_, rests := f.resting("sick")
			if got := map[bool]string{true: waits, false: opens}[rests]; rests && n == 1 {
				if c.want != probes {
					t.Errorf("another probe, want: %s", c.want)
				}
			} else if got != c.want || !rests && n != 3 || rests && n != 0 {
				t.Errorf("%s, %d rows claimed, want: %s", got, n, c.want)
			}
		})
	}
}

// A pause and a rest are independent of each other.
func TestAPauseAndARest(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 3)
	hand := f.claim(1)
	f.pause("sick")
	f.unavailable(hand, hand.ids...)
	f.rested("sick")
	if c := f.claim(5); len(c.ids) != 0 {
		t.Errorf("%d rows of a paused topic were claimed as a probe", len(c.ids))
	}
	f.resume("sick")
	if _, rests := f.resting("sick"); !rests {
		t.Error("a resume ended the rest")
	}
	probe := f.claim(5)
	if len(probe.ids) != 1 {
		t.Fatalf("%d probes after the resume", len(probe.ids))
	}
	f.pause("sick")
	f.unavailable(probe, probe.ids...)
	if list := f.topics(); len(list) != 1 || !list[0].Paused || list[0].UnavailableSince.IsZero() ||
		list[0].RestsUntil.IsZero() || list[0].Cause != away {
		t.Errorf("the topics are %+v", list)
	}
}

// A probe is found among messages that no claim has set aside yet.
func TestAProbeThatArrivesDuringTheRest(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 1)
	hand := f.claim(1)
	f.unavailable(hand, hand.ids...)
	f.exec("DELETE FROM " + f.table)
	f.rested("sick")
	if c := f.claim(5); len(c.ids) != 0 {
		t.Fatal("claimed nothing as a probe")
	}
	f.sendMany("sick", 4)
	f.until("a probe", func() bool { return len(f.claim(5).ids) == 1 })
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE status = 1"); n != 1 {
		t.Errorf("%d probes", n)
	}
}

// A broker is a destination that is away for a while.
type broker struct {
	deliveries
	away  atomic.Bool
	calls atomic.Int64 // of handlers that could not reach it
}

func (b *broker) handle(ctx context.Context, m *outbox.Delivery) error {
	switch {
	case m.Topic == "poison", string(m.Payload) == "poison":
		return workqueue.Permanent(errors.New("malformed"))
	case m.Topic == "sick" && b.away.Load():
		b.calls.Add(1)
		return fmt.Errorf("publishing: %w", workqueue.Unavailable(errors.New(away)))
	}
	return b.deliveries.handle(ctx, m)
}

// twoRelays run beside each other as in two processes: they share neither connections nor tokens of claims.
func (f *fixture) twoRelays(o workqueue.WorkerOptions, h outbox.Handler) {
	f.Helper()
	for range 2 {
		f.relay(o, func(r *outbox.Relay) { r.HandleAll(h) })
	}
}

// lines counts log lines by their message.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	n    map[string]int
	loud int // those that a log has by default
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == nil {
		l.n = map[string]int{}
	}
	l.n[r.Message]++
	if r.Level >= slog.LevelInfo {
		l.loud++
	}
	return nil
}

func (l *lines) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[message]
}

const (
	restsLine = "destination is unavailable, its topic rests"
	backLine  = "destination is available again"
)

// While a destination is away, two relays deliver everything else, and use up no attempt of what they cannot deliver.
// When it is back, everything is delivered. Each outage is two log lines.
func TestRelaysBesideADestinationThatIsAway(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]workqueue.WorkerOptions{"listening": {}, "polling": {NoListen: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lines
			f := newOutbox(t, func(o *outbox.Options) { o.Telemetry.Logger = slog.New(&log) })
			const sick = 400
			f.sendMany("sick", sick)
			poison := f.enqueue(outbox.Message{Topic: "poison", Payload: []byte("x")},
				outbox.Message{Topic: "sick", Payload: []byte("poison")})
			var b broker
			b.away.Store(true)
			o.Concurrency, o.ClaimLimit = 4, 10
			f.twoRelays(o, b.handle)
			for range 10 {
				before := len(b.of("well"))
				f.sendMany("well", 10)
				f.until("another topic", func() bool { return len(b.of("well")) == before+10 })
			}
			f.until("some probes", func() bool {
				s, is := f.resting("sick")
				return is && s.rest >= time.Second
			})
			if n := f.count("SELECT count(*) FROM "+f.table+" WHERE topic = 'sick' AND id <> $1 AND "+
				"(attempts > status OR status NOT IN (0, 1))", poison[1]); n > 0 {
				t.Errorf("%d messages used up an attempt or ended", n)
			}
			// Until the first settle has committed, each message may be tried. Without a rest, again and again.
			if n := b.calls.Load(); n > 2*sick {
				t.Errorf("%d handlers met the outage", n)
			}
			if n := log.count(restsLine); n != 1 {
				t.Errorf("the outage was logged %d times", n)
			}
			b.away.Store(false)
			f.until("everything is delivered", func() bool { return len(b.of("sick")) == sick })
			f.until("everything is settled", func() bool {
				return f.count("SELECT count(*) FROM "+f.table+" WHERE status < 2") == 0
			})
			if n := f.count("SELECT count(*) FROM "+f.table+" WHERE attempts <> 1 OR (status = 3) <> (id = ANY ($1))",
				poison); n > 0 {
				t.Errorf("%d messages have other attempts than one, or ended as others do", n)
			}
			if _, rests := f.resting("sick"); rests || log.count(backLine) != 1 || log.count(restsLine) != 1 ||
				log.count("attempt failed") > 0 {
				t.Errorf("rests: %v, log: %v", rests, log.n)
			}
		})
	}
}

// Messages of ordered keys keep their order, and those of other topics behind them wait.
func TestOrderBesideADestinationThatIsAway(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	var b broker
	b.away.Store(true)
	f.twoRelays(workqueue.WorkerOptions{Concurrency: 4}, b.handle)
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint(i))
		for _, key := range []string{"a", "b"} {
			f.enqueue(outbox.Message{Topic: "sick", Key: key, Payload: []byte(key + fmt.Sprint(i))})
		}
	}
	f.enqueue(outbox.Message{Topic: "well", Key: "a", Payload: []byte("behind")},
		outbox.Message{Topic: "well", Key: "c", Payload: []byte("free")})
	f.until("another key", func() bool { return len(b.of("well")) == 1 })
	f.until("a second probe", func() bool {
		s, is := f.resting("sick")
		return is && s.rest >= time.Second
	})
	if got := b.of("well"); len(got) != 1 || got[0] != "free" {
		t.Errorf("delivered %v before the messages of their key", got)
	}
	b.away.Store(false)
	f.until("all of them", func() bool { return len(b.of("sick")) == 40 && len(b.of("well")) == 2 })
	for _, key := range []string{"a", "b"} {
		var got []string
		for _, payload := range b.of("sick") {
			if number, is := strings.CutPrefix(payload, key); is {
				got = append(got, number)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("key %s: %v", key, got)
		}
	}
	if n := f.count("SELECT max(attempts) FROM " + f.table); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// A drain leaves what rests and ends. It probes when the rest is over, and goes on if the destination is back.
func TestADrainBesideADestinationThatIsAway(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 300)
	f.sendMany("well", 3)
	var b broker
	b.away.Store(true)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.HandleAll(b.handle)
	d, err := r.Drain()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Process(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(b.of("well")); n != 3 {
		t.Errorf("the drain delivered %d messages of another topic, want 3", n)
	}
	if wake, err := d.NextWakeAt(t.Context()); err != nil || wake == nil || wake.In > 10*time.Second {
		t.Errorf("the next wake is %+v, %v, want the end of the rest", wake, err)
	}
	f.rested("sick")
	before := b.calls.Load()
	if _, err := d.Process(t.Context()); err != nil || b.calls.Load() > before+1 {
		t.Errorf("%d probes, %v", b.calls.Load()-before, err)
	}
	b.away.Store(false)
	f.rested("sick")
	if _, err := d.Process(t.Context()); err != nil || len(b.of("sick")) != 300 {
		t.Errorf("the drain delivered %d messages, %v, want 300", len(b.of("sick")), err)
	}
}

// Environment of TestRelayThatHangs.
const (
	hangsURL    = "TXWORK_TEST_HANGS_URL"
	hangsSchema = "TXWORK_TEST_HANGS_SCHEMA"
)

// TestRelayThatHangs is a process whose handlers do not return. Its parent kills it.
func TestRelayThatHangs(t *testing.T) {
	if os.Getenv(hangsURL) == "" {
		t.Skip("runs in a child process")
	}
	pool, err := pgxpool.New(t.Context(), os.Getenv(hangsURL))
	if err != nil {
		t.Fatal(err)
	}
	box, err := outbox.Open(outbox.Options{Schema: os.Getenv(hangsSchema)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := outbox.NewRelay(pool, box, outbox.RelayOptions{WorkerOptions: workqueue.WorkerOptions{
		Lease: 2 * pgtest.Lease}})
	if err != nil {
		t.Fatal(err)
	}
	r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
		if m.Topic != "sick" {
			return nil
		}
		fmt.Println("probing")
		select {}
	})
	go func() {
		io.Copy(io.Discard, os.Stdin) // it ends with its parent
		os.Exit(1)
	}()
	t.Error(r.Run(t.Context()))
}

// A process that is killed while it probes leaves the topic to others when the lease of its message has ended.
func TestAProcessThatDiesAsTheProbe(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 5)
	hand := f.claim(5)
	f.unavailable(hand, hand.ids...)
	f.rested("sick")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), binary, "-test.run=^TestRelayThatHangs$")
	child.Env = append(os.Environ(), hangsURL+"="+f.URL, hangsSchema+"="+f.Schema)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "probing\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	var b broker
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) { r.HandleAll(b.handle) })
	f.sendMany("well", 1)
	f.until("another topic beside the probe", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE topic = 'well' AND status = 2") == 1
	})
	rest(3 * pgtest.Lease) // the child renews the lease of its probe, and is the only one as long as it lives
	if n := len(b.of("sick")); n > 0 {
		t.Errorf("%d messages were delivered beside a probe", n)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	f.until("the messages beside that of the dead", func() bool { return len(b.of("sick")) == 4 })
	f.until("that of the dead", func() bool {
		f.exec("SELECT FROM " + f.table + "_reap_expired()")
		f.exec("UPDATE " + f.table + " SET due_at = now() WHERE due_at > now()") // its backoff is an hour
		return f.count("SELECT count(*) FROM "+f.table+" WHERE status < 2") == 0
	})
}

// fetched is what a fetch in SQL says: the ids of its rows, why others may be left, when to fetch again, and where to
// go on.
type fetched struct {
	ids    []uuid.UUID
	held   *string
	again  float64
	cursor *string
}

func (f *fixture) fetch(token uuid.UUID, cursor *string, sweep *bool) (all fetched) {
	f.Helper()
	err := f.Pool.QueryRow(f.Context(), `SELECT
		coalesce(array_agg(id ORDER BY place) FILTER (WHERE entry = 'row'), '{}'), max(held), max(again_in), max(cursor) FROM `+f.table+`_fetch($1, '1 minute', 10, cursor => $2, sweep => $3)`,
		token, cursor, sweep).Scan(&all.ids, &all.held, &all.again, &all.cursor)
	if err != nil {
		f.Fatal(err)
	}
	return all
}

func (f *fixture) settleInSQL(token uuid.UUID, outcome string, ids ...uuid.UUID) {
	f.Helper()
	for _, id := range ids {
		f.exec("SELECT FROM "+f.table+"_settle(jsonb_build_array(jsonb_build_object('id', $1::uuid, "+
			"'token', $2::uuid, 'outcome', $3::text)))", id, token, outcome)
	}
}

// Programs in SQL and in Go obey each other's rests, and open topics for each other.
func TestSQLAndGoBesideADestinationThatIsAway(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 5)
	token := workqueue.NewOwnerToken()
	first := f.fetch(token, nil, nil)
	f.settleInSQL(token, "unavailable", first.ids[0])
	f.settleInSQL(token, "release", first.ids[1:]...)
	f.exec("UPDATE " + f.table + "_topic SET rests_until = now() + interval '9 s'") // this test is slow
	if c := f.claim(10); len(c.ids) != 0 {
		t.Errorf("Go claimed %d rows of a topic that SQL found unavailable", len(c.ids))
	}
	end := f.fetch(workqueue.NewOwnerToken(), nil, nil)
	if len(end.ids) != 0 || end.held == nil || *end.held != "unavailable" || end.again > 9 {
		t.Errorf("a fetch returns %+v", end)
	}
	f.rested("sick")
	probe := f.claim(10)
	if len(probe.ids) != 1 || probe.ids[0] != first.ids[0] {
		t.Fatalf("Go probes with %v", probe.ids)
	}
	end = f.fetch(workqueue.NewOwnerToken(), nil, nil)
	if len(end.ids) != 0 || end.held == nil || *end.held != "unavailable" || end.again > 5 {
		t.Errorf("a fetch beside a probe returns %+v", end)
	}
	f.unavailable(probe, probe.ids...)
	if s, _ := f.resting("sick"); s.rest != time.Second {
		t.Errorf("rests for %v", s.rest)
	}
	f.rested("sick")
	no := false
	token = workqueue.NewOwnerToken()
	inSQL := f.fetch(token, end.cursor, &no)
	if len(inSQL.ids) != 1 || inSQL.ids[0] != first.ids[0] {
		t.Fatalf("SQL probes with %+v", inSQL)
	}
	f.settleInSQL(token, "ack", inSQL.ids...)
	rest := f.fetch(workqueue.NewOwnerToken(), inSQL.cursor, &no)
	if !slices.Equal(rest.ids, first.ids[1:]) {
		t.Errorf("after the probe a fetch returns %v, want the other rows %v", rest.ids, first.ids[1:])
	}
	if _, rests := f.resting("sick"); rests {
		t.Error("the topic still rests")
	}
}

// as runs work as a role that has rights on the rows and is not their owner.
func (f *fixture) as(work func(q *workqueue.Queue)) {
	f.Helper()
	role := f.Schema + "_worker"
	f.exec("CREATE ROLE " + role)
	f.Cleanup(func() { // the test's context is over
		_, err := f.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		if err != nil {
			f.Error(err)
		}
	})
	f.exec("GRANT USAGE ON SCHEMA " + f.Schema + " TO " + role)
	f.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + f.Schema + " TO " + role)
	f.exec("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + f.Schema + " TO " + role)
	f.inTx(func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.Context(), "SET LOCAL ROLE "+role); err != nil {
			return err
		}
		work(f.box.Table().In(workqueue.Pgx(tx)))
		return nil
	})
}

// A worker needs no more rights than for claims. Under row-level security it does not decide for the rows of others:
// the topic does not rest, and the row waits.
func TestARoleBesideADestinationThatIsAway(t *testing.T) {
	t.Parallel()
	const of = " ENABLE ROW LEVEL SECURITY"
	for name, secure := range map[string]func(*fixture){
		"plain": nil,
		"row-level security": func(f *fixture) {
			f.exec("ALTER TABLE " + f.table + of)
			f.exec("SELECT " + f.table + "_key_policies(), " + f.table + "_join_policies(), " + f.table +
				"_topic_policies()")
		},
		"row-level security of the messages alone": func(f *fixture) { f.exec("ALTER TABLE " + f.table + of) },
		"row-level security of the topics alone": func(f *fixture) {
			f.exec("ALTER TABLE " + f.table + "_topic" + of)
			f.exec("CREATE POLICY txwork_read ON " + f.table + "_topic FOR SELECT USING (true)")
		},
	} {
		secured := secure != nil
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			if secured {
				f.exec("CREATE POLICY own ON " + f.table + " USING (topic = 'sick')")
				secure(f)
			}
			f.sendMany("sick", 3)
			f.as(func(q *workqueue.Queue) {
				token := workqueue.NewOwnerToken()
				rows, err := q.Claim(t.Context(), token, time.Minute, 1)
				if err != nil || len(rows) != 1 {
					t.Fatalf("claimed %d rows, %v", len(rows), err)
				}
				if _, err := q.Unavailable(t.Context(), token, []uuid.UUID{rows[0].ID}, away); err != nil {
					t.Fatal(err)
				}
				more, err := q.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
				if want := map[bool]int{true: 2}[secured]; err != nil || len(more) != want {
					t.Errorf("claimed %d rows, %v, want %d", len(more), err, want)
				}
			})
			rests := f.count("SELECT count(*) FROM " + f.table + "_topic WHERE unavailable_since IS NOT NULL")
			waits := f.count("SELECT count(*) FROM " + f.table + " WHERE aside IS NULL AND attempts = 0 AND " +
				"due_at BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp() + interval '10 s'")
			if want := map[bool]int{true: 1}[secured]; rests != 1-want || waits != want {
				t.Errorf("%d topics rest, %d rows wait by themselves", rests, waits)
			}
		})
	}
}

// A probe that fails updates its message twice, as every claim and settle, and the state of its topic twice. Neither it
// nor the rest wakes workers, and no other message is written.
func TestWhatAProbeCosts(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("sick", 100)
	hand := f.claim(1)
	f.unavailable(hand, hand.ids...)
	f.claim(1) // sets the others aside
	f.exec("CREATE TABLE " + f.Schema + ".written (of text)")
	f.exec("CREATE FUNCTION " + f.Schema + ".write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO " +
		f.Schema + ".written VALUES (TG_TABLE_NAME); RETURN NULL; END $$")
	for _, table := range []string{f.table, f.table + "_topic"} {
		f.exec("CREATE TRIGGER written AFTER INSERT OR UPDATE OR DELETE ON " + table +
			" FOR EACH ROW EXECUTE FUNCTION " + f.Schema + ".write()")
	}
	next := pgtest.Listen(t, f.Pool, f.Schema+".outbox")
	const probes = 5
	for range probes {
		f.exec("ALTER TABLE " + f.table + "_topic DISABLE TRIGGER written")
		f.rested("sick")
		f.exec("ALTER TABLE " + f.table + "_topic ENABLE TRIGGER written")
		probe := f.claim(100)
		f.claim(100)
		f.unavailable(probe, probe.ids...)
		f.claim(100)
	}
	written := func(table string) int {
		return f.count("SELECT count(*) FROM "+f.Schema+".written WHERE of = $1", table)
	}
	if messages, states := written("outbox"), written("outbox_topic"); messages != 2*probes || states != 2*probes {
		t.Errorf("%d probes wrote %d messages and %d states, want 2 of each", probes, messages, states)
	}
	f.exec("SELECT pg_notify($1, 'the end')", f.Schema+".outbox")
	if n := next(); n.Payload != "the end" {
		t.Errorf("notified of %q", n.Payload)
	}
}
